"""Questions of a user: Asks, whose fields are the options of the commands, and the Request that they become."""
