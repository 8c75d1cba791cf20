// Package demo gives the examples a language model.
package demo

import (
	"errors"
	"log"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/models"
	"github.com/superstep-dev/superstep/model/scripted"
)

// Model returns a model that answers from a script, so that an example runs
// without a key and prints the same each time. With SUPERSTEP_MODEL set to a name
// such as openai:gpt-5 or ollama:llama3.2 it is that model; see package models.
func Model(script ...scripted.Reply) model.Model {
	m, err := models.FromEnv()
	if errors.Is(err, models.ErrUnset) {
		return scripted.New(script...)
	}
	if err != nil {
		log.Fatal(err)
	}
	return m
}
