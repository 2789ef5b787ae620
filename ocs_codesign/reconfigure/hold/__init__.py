"""Hold: which design to hold when, if the whole fabric stops for a change of circuits."""
