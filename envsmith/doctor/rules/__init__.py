"""doctor/rules"""
