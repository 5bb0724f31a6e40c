"""The exact search for orders of whole patches; its face is ``models/offloading/orders.py``."""
