"""Processes that run methods: started, compiled for, listened to, suspended and stopped."""
