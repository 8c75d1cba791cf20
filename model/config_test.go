package model_test

import (
	"reflect"
	"testing"

	"github.com/superstep-dev/superstep/model"
)

func TestSettingsOfARequestReplaceDefaults(t *testing.T) {
	half, one := 0.5, 1.0
	defaults := model.Config{Model: "a", Temperature: &half, MaxTokens: 5, Stop: []string{"x"}, Extra: map[string]any{"k": 1, "own": 2}}
	got := defaults.With(model.Config{Temperature: &one, Seed: new(int64), Extra: map[string]any{"k": 3}})
	want := model.Config{Model: "a", Temperature: &one, MaxTokens: 5, Stop: []string{"x"}, Seed: new(int64), Extra: map[string]any{"k": 3, "own": 2}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if defaults.Extra["k"] != 1 {
		t.Error("the defaults were altered")
	}
	// Every setting is taken, those of later versions too.
	var all model.Config
	v := reflect.ValueOf(&all).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		switch f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Int:
			f.SetInt(1)
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"x"}))
		case reflect.Map:
			m := reflect.MakeMap(f.Type())
			m.SetMapIndex(reflect.ValueOf("x"), reflect.ValueOf("y"))
			f.Set(m)
		default:
			t.Fatalf("field %s is a %v", v.Type().Field(i).Name, f.Kind())
		}
	}
	if got := (model.Config{}).With(all); !reflect.DeepEqual(got, all) {
		t.Errorf("got %+v, want %+v", got, all)
	}
}
