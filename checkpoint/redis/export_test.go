package redis

// Writing is what requests that write have in them: the hash of a script, or its text.
var Writing = []string{commitScript.Hash(), deleteScript.Hash(), "\nforget(ARGV[1])\nreturn {}"}
