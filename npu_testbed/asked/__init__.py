"""What a user asks: Asks, whose fields are the options of the commands, and the Request that is made of them."""
