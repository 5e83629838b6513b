package backup

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Location says where backups are kept and with what credentials.
type Location struct {
	// URL is one of
	//
	//	s3://bucket/prefix?region=eu-west-1&endpoint=https://host:port&path-style=true&checksums=false
	//	gs://bucket/prefix?endpoint=https://host
	//	azblob://container/prefix?account=name&endpoint=https://host
	//	file:///directory
	//
	// where the prefix and all that follows it may be left out. endpoint is for stores that are not those of AWS, Google and Microsoft
	// themselves, path-style for those that have no host name for each bucket. checksums=true sends checksums of S3 with uploads, which AWS
	// gets by default, and others not because many do not know them; what is stored has hashes of its own in any case.
	URL string
	// Credentials is the directory that a Secret is mounted at, with a file for each of its keys:
	//
	//	s3      AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN (may be missing)
	//	gs      credentials.json, the key of a service account or a configuration of workload identity federation
	//	azblob  AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN
	//	all     ca.crt (may be missing), certificates to trust beside those of the system
	//
	// Empty, or a Secret with ca.crt alone: the credentials of the environment, as workload identity gives them.
	Credentials string
}

// place is a URL that was understood.
type place struct {
	scheme, bucket, prefix string
	// dir is the directory of file.
	dir string
	// parameters are the ones of the scheme, see parameters.
	parameters map[string]string
}

// parameters of each scheme, with what checks them.
var parameters = map[string]map[string]func(string) error{
	"s3":     {"region": checkRegion, "endpoint": checkEndpoint, "path-style": checkBool, "checksums": checkBool},
	"gs":     {"endpoint": checkEndpoint},
	"azblob": {"endpoint": checkEndpoint, "account": checkAccount},
	"file":   {},
}

var (
	bucketName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{1,220}[A-Za-z0-9]$`)
	regionName  = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)
	accountName = regexp.MustCompile(`^[a-z0-9]{3,24}$`)
)

// CheckURL tells what is wrong with the URL of a Location and what to write instead, without any I/O.
func CheckURL(url string) error {
	_, err := parseURL(url)
	return err
}

func parseURL(raw string) (place, error) {
	u, err := url.Parse(raw)
	if err != nil {
		var reason *url.Error
		if errors.As(err, &reason) {
			err = reason.Err // Without the URL, which may have a password in it.
		}
		return place{}, fmt.Errorf("the URL cannot be read: %w", err)
	}
	known, ok := parameters[u.Scheme]
	switch {
	case !ok:
		return place{}, fmt.Errorf("the URL begins with %q: write s3://bucket/prefix, gs://bucket/prefix, azblob://container/prefix or file:///directory", u.Scheme+":")
	case u.User != nil:
		return place{}, fmt.Errorf("the URL holds credentials: put them into a Secret, and name that")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return place{}, fmt.Errorf("the URL holds a #, and nothing may follow the parameters")
	case u.Opaque != "":
		return place{}, fmt.Errorf("the URL is to begin with %s://", u.Scheme)
	}
	p := place{scheme: u.Scheme, bucket: u.Host}
	if p.parameters, err = parseParameters(u, known); err != nil {
		return place{}, err
	}
	if u.Scheme == "file" {
		p.dir, p.bucket = u.Path, ""
		return p, checkDirectory(u)
	}
	p.prefix = strings.Trim(u.Path, "/")
	return p, p.checkBucket(u)
}

func parseParameters(u *url.URL, known map[string]func(string) error) (map[string]string, error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("the parameters of the URL cannot be read: %w", err)
	}
	given := map[string]string{}
	for name, all := range values {
		check, ok := known[name]
		if !ok {
			names := slices.Sorted(func(yield func(string) bool) {
				for name := range known {
					if !yield(name) {
						return
					}
				}
			})
			return nil, fmt.Errorf("the URL has a parameter %q, and for %s: there are only these: %s", name, u.Scheme, strings.Join(append(names, "(none others)"), ", "))
		}
		if len(all) != 1 {
			return nil, fmt.Errorf("the URL has the parameter %q %d times", name, len(all))
		}
		if err := check(all[0]); err != nil {
			return nil, fmt.Errorf("the parameter %q of the URL: %w", name, err)
		}
		given[name] = all[0]
	}
	return given, nil
}

func (p place) checkBucket(u *url.URL) error {
	switch {
	case u.Port() != "":
		return fmt.Errorf("the URL has a port where the bucket belongs: write %s://bucket/prefix?endpoint=https://%s", u.Scheme, u.Host)
	case p.bucket == "":
		return fmt.Errorf("the URL names no bucket: write %s://bucket/prefix", u.Scheme)
	case !bucketName.MatchString(p.bucket):
		return fmt.Errorf("%q cannot be the name of a bucket", p.bucket)
	case p.prefix == "":
		return nil
	}
	if err := checkPath(p.prefix); err != nil {
		return fmt.Errorf("the prefix in the URL: %w", err)
	}
	return nil
}

func checkDirectory(u *url.URL) error {
	switch {
	case u.Host != "" && u.Host != "localhost":
		return fmt.Errorf("the URL names a host, %q, where a directory belongs: write file:///%s%s", u.Host, u.Host, u.Path)
	case u.Path == "" || u.Path == "/":
		return fmt.Errorf("the URL names no directory: write file:///directory")
	case path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/"):
		return fmt.Errorf("the directory in the URL is not written straight: it is %s", path.Clean(u.Path))
	case strings.ContainsFunc(u.Path, unicode.IsControl):
		return fmt.Errorf("the directory in the URL holds a control character")
	}
	return nil
}

func checkRegion(value string) error {
	if !regionName.MatchString(value) {
		return fmt.Errorf("%q cannot be a region: an example is eu-west-1", value)
	}
	return nil
}

func checkAccount(value string) error {
	if !accountName.MatchString(value) {
		return fmt.Errorf("%q cannot be a storage account: these have 3 to 24 lower case letters and digits", value)
	}
	return nil
}

func checkBool(value string) error {
	if value != "true" && value != "false" {
		return fmt.Errorf("%q is neither true nor false", value)
	}
	return nil
}

func checkEndpoint(value string) error {
	u, err := url.Parse(value)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		return fmt.Errorf("write https://host:port")
	case u.User != nil:
		return fmt.Errorf("it holds credentials: put them into a Secret, and name that")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("nothing may follow the host and port: write %s://%s", u.Scheme, u.Host)
	}
	return nil
}
