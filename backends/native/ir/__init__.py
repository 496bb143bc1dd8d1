"""The loop IR: what a kernel computes, before anybody says in which language."""
