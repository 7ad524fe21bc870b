"""probe/parse"""
