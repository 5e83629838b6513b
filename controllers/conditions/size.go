package conditions

import (
	"encoding/json"
	"reflect"
)

// Sizes of a status in bytes. The API server stores no object of more than 1.5 MiB (etcd's limit of
// a request), of which the specification and the managed fields need their part. Texts in a status
// come from servers, containers and other controllers: they have any length.
const (
	// maxStatus is the size of a status as JSON.
	maxStatus = 512 << 10
	// maxText is the length of one text in it, and minText what is left of it at least where
	// maxStatus asks for less. Names, ids and versions are shorter.
	maxText = 8 << 10
	minText = 64
)

// BoundStatus cuts the texts in the status of an object, so that it is written however long they
// are and however many there are.
func BoundStatus(o any) {
	status := reflect.ValueOf(o).Elem().FieldByName("Status")
	if !status.IsValid() {
		return
	}
	for limit := maxText; limit >= minText; limit /= 2 {
		if total := cutTexts(status, limit); 6*total <= maxStatus { // JSON takes up to six bytes for one.
			return
		}
		if raw, err := json.Marshal(status.Interface()); err != nil || len(raw) <= maxStatus {
			return
		}
	}
}

// cutTexts cuts all texts below a value and returns their length.
func cutTexts(v reflect.Value, limit int) (total int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			total = cutTexts(v.Elem(), limit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				total += cutTexts(v.Field(i), limit)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			total += cutTexts(v.Index(i), limit)
		}
	case reflect.String:
		if v.Len() > limit {
			v.SetString(Cut(v.String(), limit))
		}
		total = v.Len()
	}
	return total
}
