package backup

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"
)

// azureKeys are what a Secret for Azure may hold.
type azureKeys struct{ connection, account, key, token string }

func openAzure(ctx context.Context, p place, secret string, transport *http.Transport) (*blob.Bucket, error) {
	keys, err := readAzureKeys(p, secret)
	if err != nil {
		return nil, err
	}
	client, err := newAzureClient(p, keys, &container.ClientOptions{ClientOptions: policy.ClientOptions{
		Transport: &http.Client{Transport: transport},
		Retry:     policy.RetryOptions{MaxRetries: attempts - 1},
	}})
	if err != nil {
		return nil, err
	}
	return azureblob.OpenBucket(ctx, client, nil)
}

func readAzureKeys(p place, secret string) (k azureKeys, err error) {
	for name, value := range map[string]*string{
		"AZURE_STORAGE_CONNECTION_STRING": &k.connection, "AZURE_STORAGE_ACCOUNT": &k.account,
		"AZURE_STORAGE_KEY": &k.key, "AZURE_STORAGE_SAS_TOKEN": &k.token,
	} {
		if *value, err = secretValue(secret, name); err != nil {
			return k, err
		}
	}
	if account := p.parameters["account"]; account != "" {
		k.account = account
	}
	if k.account == "" && k.connection == "" {
		k.account = os.Getenv("AZURE_STORAGE_ACCOUNT")
	}
	if k.account == "" && k.connection == "" {
		return k, fmt.Errorf("no storage account is known: write azblob://%s/prefix?account=name, or AZURE_STORAGE_ACCOUNT into the Secret", p.bucket)
	}
	return k, nil
}

func newAzureClient(p place, k azureKeys, options *container.ClientOptions) (*container.Client, error) {
	if k.connection != "" {
		client, err := container.NewClientFromConnectionString(k.connection, p.bucket, options)
		if err != nil {
			return nil, fmt.Errorf("%w: AZURE_STORAGE_CONNECTION_STRING of the Secret is not one", ErrCredentials) // The error might quote it.
		}
		return client, nil
	}
	at, err := url.JoinPath(azureService(p, k.account), p.bucket)
	if err != nil {
		return nil, err
	}
	switch {
	case k.key != "":
		shared, err := azblob.NewSharedKeyCredential(k.account, k.key)
		if err != nil {
			return nil, fmt.Errorf("%w: AZURE_STORAGE_KEY of the Secret is not in base64", ErrCredentials)
		}
		return container.NewClientWithSharedKeyCredential(at, shared, options)
	case k.token != "":
		return container.NewClientWithNoCredential(at+"?"+strings.TrimPrefix(k.token, "?"), options)
	}
	identity, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: azcore.ClientOptions{}})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	return container.NewClient(at, identity, options)
}

// azureService is the address of a storage account. Microsoft has a host name for each, in other clouds as well; an emulator has the account
// in the path, as in http://127.0.0.1:10000/account.
func azureService(p place, account string) string {
	endpoint := strings.TrimSuffix(p.parameters["endpoint"], "/")
	switch {
	case endpoint == "":
		return "https://" + account + ".blob.core.windows.net"
	case strings.Contains(endpoint, "://"+account+"."):
		return endpoint
	}
	return endpoint + "/" + account
}
