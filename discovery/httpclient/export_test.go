package httpclient

// DefaultBase is what a nil base is.
var DefaultBase = defaultBase
