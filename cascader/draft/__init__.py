"""Drafts: a schedule on its way as one flat value, how it is made of groups, and the moves by which one climb changes it."""
