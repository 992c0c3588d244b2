"""All of the cascader that is specific to the Ethos-U."""
