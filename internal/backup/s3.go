package backup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"
)

// anyRegion is what signatures name where a store that is not AWS does not ask for anything else.
const anyRegion = "us-east-1"

// tenacious has a store asked again as often as it makes sense.
func tenacious(o *retry.StandardOptions) {
	o.MaxAttempts = attempts
	o.Retryables = append(o.Retryables, retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
		if nameless(err) {
			return aws.TrueTernary
		}
		return aws.UnknownTernary
	}))
}

func openS3(ctx context.Context, p place, secret string, transport *http.Transport) (*blob.Bucket, error) {
	options := []func(*config.LoadOptions) error{
		config.WithRetryer(func() aws.Retryer { return retry.NewStandard(tenacious) }),
		config.WithRequestChecksumCalculation(p.checksums()),
	}
	if region := p.parameters["region"]; region != "" {
		options = append(options, config.WithRegion(region))
	}
	given, err := s3Credentials(secret)
	if err != nil {
		return nil, err
	}
	if given != nil {
		options = append(options, config.WithCredentialsProvider(given))
	}
	c, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of AWS from the environment: %w", err)
	}
	if c.Region == "" {
		if p.parameters["endpoint"] == "" {
			return nil, errors.New("no region is known: write s3://bucket/prefix?region=eu-west-1, or endpoint= for a store that is not AWS")
		}
		c.Region = anyRegion
	}
	c.Credentials = refused{c.Credentials}
	if client, ok := c.HTTPClient.(*awshttp.BuildableClient); ok && transport.TLSClientConfig.RootCAs != nil {
		c.HTTPClient = client.WithTransportOptions(func(t *http.Transport) { t.TLSClientConfig.RootCAs = transport.TLSClientConfig.RootCAs })
	}
	client := s3.NewFromConfig(c, func(o *s3.Options) {
		if endpoint := p.parameters["endpoint"]; endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
		o.UsePathStyle = p.parameters["path-style"] == "true"
		o.DisableLogOutputChecksumValidationSkipped = true // What is stored has hashes of its own.
	})
	return s3blob.OpenBucket(ctx, client, p.bucket, &s3blob.Options{RequestChecksumCalculation: p.checksums()})
}

// s3Credentials returns nil if the Secret has none.
func s3Credentials(secret string) (aws.CredentialsProvider, error) {
	id, err := secretValue(secret, "AWS_ACCESS_KEY_ID")
	if err != nil {
		return nil, err
	}
	key, err := secretValue(secret, "AWS_SECRET_ACCESS_KEY")
	if err != nil {
		return nil, err
	}
	token, err := secretValue(secret, "AWS_SESSION_TOKEN")
	if err != nil {
		return nil, err
	}
	switch {
	case id == "" && key == "":
		return nil, nil
	case id == "" || key == "":
		return nil, fmt.Errorf("%w: the Secret is to have both of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", ErrCredentials)
	}
	return credentials.NewStaticCredentialsProvider(id, key, token), nil
}

// refused says of errors of a provider of credentials what they are: the SDK has no type for them.
type refused struct{ aws.CredentialsProvider }

func (r refused) Retrieve(ctx context.Context) (aws.Credentials, error) {
	c, err := r.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	return c, nil
}

// abortTime is what the removal of an upload that came to nothing may take.
const abortTime = 30 * time.Second

// tuneS3 gives uploads to S3 a context of their own for their removal: the one that they were made with has ended by then, and pieces that
// nobody completes or removes are paid for. It is called before each upload, and does nothing for other stores.
func tuneS3(bucket *blob.Bucket, p place) func(as func(any) bool) error {
	var client *s3.Client
	if !bucket.As(&client) {
		return nil
	}
	return func(as func(any) bool) error {
		var manager *transfermanager.Client
		if !as(&manager) {
			return errors.New("the upload to S3 cannot be set up: its library changed")
		}
		*manager = *transfermanager.New(client, func(o *transfermanager.Options) {
			o.PartSizeBytes, o.MultipartUploadThreshold, o.Concurrency = partSize, partSize, uploadsAtOnce
			o.FailTimeout = abortTime
			o.RequestChecksumCalculation = p.checksums()
		})
		return nil
	}
}

// checksums tells whether uploads have checksums of S3.
func (p place) checksums() aws.RequestChecksumCalculation {
	given := p.parameters["checksums"]
	if given == "true" || (given == "" && p.parameters["endpoint"] == "") {
		return aws.RequestChecksumCalculationWhenSupported
	}
	return aws.RequestChecksumCalculationWhenRequired
}
