package models

import "testing"

func TestOllamaHost(t *testing.T) {
	for host, want := range map[string]string{
		"":                         "http://localhost:11434/",
		"  \"gpu\" ":               "http://gpu:11434/",
		"gpu:8080":                 "http://gpu:8080/",
		"0.0.0.0":                  "http://localhost:11434/",
		"0.0.0.0:80":               "http://localhost:80/",
		":80":                      "http://localhost:80/",
		"::1":                      "http://[::1]:11434/",
		"[::1]:80":                 "http://[::1]:80/",
		"[::]":                     "http://localhost:11434/",
		"gpu/ollama":               "http://gpu:11434/ollama",
		"https://ollama.com":       "https://ollama.com",
		"http://gpu:11434/prefix/": "http://gpu:11434/prefix/",
	} {
		if got := ollamaHost(host); got != want {
			t.Errorf("%q is %s, want %s", host, got, want)
		}
	}
}
