package owned

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/quorate/quorate/internal/goroutine"
)

// DialDirect connects to the pod's address: the way of a manager that runs inside the cluster.
func DialDirect(ctx context.Context, _ types.NamespacedName, ip string, port int) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
}

// DialThroughAPI connects through the API server's port forwarding: the way of a manager on a laptop, which cannot
// reach the pods' addresses. It needs the verb create on pods/portforward, which the deployed manager does not have.
func DialThroughAPI(cfg *rest.Config) (DialFunc, error) {
	server, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("transport for port forwarding: %w", err)
	}
	return func(_ context.Context, pod types.NamespacedName, _ string, port int) (net.Conn, error) {
		url := server.JoinPath("api/v1/namespaces", pod.Namespace, "pods", pod.Name, "portforward")
		dialer := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
		session, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		if err != nil {
			return nil, fmt.Errorf("forward a port of pod %s: %w", pod, err)
		}
		conn, err := forward(session, port)
		if err != nil {
			_ = session.Close() // The stream that could not be opened is the error to tell.
			return nil, fmt.Errorf("forward port %d of pod %s: %w", port, pod, err)
		}
		return conn, nil
	}, nil
}

// forward opens the pair of streams that carry one connection. A pipe in between gives the caller deadlines, which
// the streams do not have.
func forward(session httpstream.Connection, port int) (net.Conn, error) {
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	errs, err := session.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	_ = errs.Close() // Nothing is written to the error stream; what arrives on it ends the data stream as well.
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := session.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	// The end of the stream is the end of the connection, whatever the cause.
	goroutine.Go(func() error { return pass(far, data) }, func(error) {
		_ = far.Close()
		_ = session.Close()
	})
	goroutine.Go(func() error { return pass(data, far) }, func(error) { _ = data.Close() })
	return near, nil
}

func pass(to io.Writer, from io.Reader) error {
	_, err := io.Copy(to, from)
	return err
}
