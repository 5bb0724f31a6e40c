"""Where on the array the processing elements of each layer lie."""
