"""Tables in, numbers out: reading data files and preparing features and targets."""
