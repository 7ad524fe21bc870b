"""Pure parsers: text or bytes in, values out. They never raise, whatever they are given."""
