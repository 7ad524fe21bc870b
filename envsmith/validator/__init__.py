"""validator"""
