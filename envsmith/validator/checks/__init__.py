"""validator/checks"""
