package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"gocloud.dev/gcerrors"
	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"
)

// What callers tell apart. ErrCredentials, ErrNoBucket, ErrNotAllowed and ErrFull want somebody to change something; an error of a store that
// is none of these is worth another attempt.
var (
	// ErrDamaged means that what is stored is not what was written, or cannot be understood.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrTooNew means that a later version of Quorate wrote it.
	ErrTooNew = errors.New("the backup has a format that this version does not know")
	// ErrNotFound means that a bucket or directory is there, and the object is not in it.
	ErrNotFound = errors.New("not found")
	// ErrExists means that a backup is complete, and nothing of it is replaced.
	ErrExists = errors.New("the backup exists already")
	// ErrNotAllowed means that the store knows who asks, and refuses: a right is missing, or what is stored is protected (WORM).
	ErrNotAllowed = errors.New("the store does not allow it")
	// ErrCredentials means that the store does not accept the credentials, or that there are none.
	ErrCredentials = errors.New("the credentials are not accepted")
	// ErrNoBucket means that there is no such bucket, container or directory. It is not ErrNotFound: nothing is known of what was in it.
	ErrNoBucket = errors.New("there is no such bucket")
	// ErrFull means that the store has no room left, or a quota is used up.
	ErrFull = errors.New("the store is full")
	// ErrKey means that a part is encrypted, and that no identity opens it.
	ErrKey = errors.New("the part is encrypted, and no identity opens it")
	// ErrNotEncrypted means that an identity is given, and the backup is not encrypted: whoever may write to the store can have made it.
	ErrNotEncrypted = errors.New("the backup is not encrypted, and an identity is given")
	// ErrNotAuthentic means that no authentication key of the Secret has authenticated the backup.
	ErrNotAuthentic = errors.New("the backup is not authenticated by a key of the Secret")
	// ErrStalled means that a store moved nothing for a long time.
	ErrStalled = errors.New("the store does not answer")
)

// codes are the error codes of S3 and its likes, and of Azure, by what they mean.
//
// Source: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html,
// https://learn.microsoft.com/en-us/rest/api/storageservices/blob-service-error-codes.
var codes = map[string]error{
	"InvalidAccessKeyId": ErrCredentials, "SignatureDoesNotMatch": ErrCredentials, "ExpiredToken": ErrCredentials,
	"InvalidToken": ErrCredentials, "TokenRefreshRequired": ErrCredentials, "AuthenticationFailed": ErrCredentials,
	"NoAuthenticationInformation": ErrCredentials, "InvalidAuthenticationInfo": ErrCredentials, "InvalidSecurity": ErrCredentials,
	"NoSuchBucket": ErrNoBucket, "ContainerNotFound": ErrNoBucket, "ContainerBeingDeleted": ErrNoBucket,
	"NoSuchKey": ErrNotFound, "BlobNotFound": ErrNotFound,
	"AccessDenied": ErrNotAllowed, "AllAccessDisabled": ErrNotAllowed, "AccountProblem": ErrNotAllowed, "MethodNotAllowed": ErrNotAllowed,
	"ObjectLocked": ErrNotAllowed, "InvalidObjectState": ErrNotAllowed, "AuthorizationFailure": ErrNotAllowed,
	"AuthorizationPermissionMismatch": ErrNotAllowed, "InsufficientAccountPermissions": ErrNotAllowed, "AccountIsDisabled": ErrNotAllowed,
	"BlobImmutableDueToPolicy": ErrNotAllowed, "AuthorizationProtocolMismatch": ErrNotAllowed, "AuthorizationSourceIPMismatch": ErrNotAllowed,
	"QuotaExceeded": ErrFull, "InsufficientStorage": ErrFull, "XMinioStorageFull": ErrFull, "XMinioAdminBucketQuotaExceeded": ErrFull,
}

// statuses are what is left to go by where an answer has no code that is known.
var statuses = map[int]error{
	http.StatusUnauthorized:        ErrCredentials,
	http.StatusForbidden:           ErrNotAllowed,
	http.StatusInsufficientStorage: ErrFull,
}

// classified are the errors that classify gives, and so leaves alone.
var classified = []error{ErrCredentials, ErrNoBucket, ErrNotFound, ErrNotAllowed, ErrFull, ErrExists, ErrDamaged, ErrNotEncrypted, ErrNotAuthentic, ErrStalled}

// classify adds to an error of a store what it means for the caller, where that is known. ctx is the one that the call was made with: where
// it ended, its cause is the reason.
func classify(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case slices.ContainsFunc(classified, func(known error) bool { return errors.Is(err, known) }):
		return err
	case ctx.Err() != nil:
		if cause := context.Cause(ctx); !errors.Is(err, cause) {
			return fmt.Errorf("%w: %w", cause, err)
		}
		return err
	}
	if meaning := meaningOf(err); meaning != nil {
		return fmt.Errorf("%w: %w", meaning, err)
	}
	return err
}

// meaningOf returns nil for errors that may be over at the next attempt.
func meaningOf(err error) error {
	switch {
	case errors.Is(err, storage.ErrBucketNotExist):
		return ErrNoBucket
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return ErrFull
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return ErrNotAllowed
	case errors.As(err, new(*oauth2.RetrieveError)):
		return ErrCredentials
	}
	code, status := answer(err)
	if meaning := codes[code]; meaning != nil {
		return meaning
	}
	if nameless(err) {
		return nil
	}
	if meaning := statuses[status]; meaning != nil {
		return meaning
	}
	if gcerrors.Code(err) == gcerrors.NotFound {
		return ErrNotFound
	}
	return nil
}

// nameless tells a 404 that S3 or Azure would have given a code, and that has none: somebody else has answered, such as a proxy that does not
// find its server while that one is restarted. Of what is stored it says nothing. S3 gives none to HEAD. The client of Azure does not ask again.
func nameless(err error) bool {
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.HTTPStatusCode() == http.StatusNotFound {
		asked, code := response.Response.Request, "NotFound" // That is what the client makes of an empty answer.
		var aws smithy.APIError
		if errors.As(err, &aws) {
			code = aws.ErrorCode()
		}
		return code == "NotFound" && (asked == nil || asked.Method != http.MethodHead)
	}
	var azure *azcore.ResponseError
	return errors.As(err, &azure) && azure.StatusCode == http.StatusNotFound && azure.ErrorCode == ""
}

// answer finds the error code and the HTTP status that a store answered with.
func answer(err error) (code string, status int) {
	var aws smithy.APIError
	if errors.As(err, &aws) {
		code = aws.ErrorCode()
	}
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
	}
	var azure *azcore.ResponseError
	if errors.As(err, &azure) {
		code, status = azure.ErrorCode, azure.StatusCode
	}
	var google *googleapi.Error
	if errors.As(err, &google) {
		status = google.Code
		if status == http.StatusNotFound && strings.Contains(google.Message, "bucket does not exist") {
			code = "NoSuchBucket"
		}
	}
	return code, status
}

// permanent tells errors that another attempt does not cure.
func permanent(err error) bool {
	if errors.Is(err, ErrStalled) {
		return false
	}
	return slices.ContainsFunc(classified, func(known error) bool { return errors.Is(err, known) })
}
