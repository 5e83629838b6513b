// Package skew gives one process another time of day than its machine has.
//
// Linux has no namespace for the time of day, and a library that is loaded before others (libfaketime) does not reach etcd and the operator:
// static programs call no C library. What every program calls, whatever it is linked with, is the vDSO, the page of code that the kernel maps
// into each process for questions about time (vdso(7)). Within one process, its functions are redirected here to a few instructions at the end of
// that page, where there is nothing: they ask the kernel, and add a number of seconds to the time of day. Monotonic clocks are left alone.
//
// A process without a skew keeps the instructions and adds 0, so that ending one is a single write that needs no knowledge of what was before, and
// that another program can make (see End).
package skew

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// ErrUnsupported says that this cannot be done with the processes of this machine.
var ErrUnsupported = errors.New("no other time of day for a process")

// Run runs a script of sh where the process is, as somebody who may write to its memory. It returns what the script printed.
type Run func(ctx context.Context, script string, args ...string) (string, error)

// Here runs a script on this machine, as this user.
func Here(ctx context.Context, script string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", script, "sh"}, args...)...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, said.String())
	}
	return string(out), err
}

// vdso finds out where the page is in the process that is the first argument, and how large it is, in bytes.
const vdso = `pid=$1; shift
from=$(sed -n 's/^\([0-9a-f]*\)-.*\[vdso\]$/\1/p' "/proc/$pid/maps"); to=$(sed -n 's/^[0-9a-f]*-\([0-9a-f]*\) .*\[vdso\]$/\1/p' "/proc/$pid/maps")
[ -n "$from" ] || { echo "process $pid has no vDSO" >&2; exit 1; }
from=$((0x$from)) size=$((0x$to - from))
`

const (
	peek = vdso + `dd if="/proc/$pid/mem" bs=4096 skip=$((from / 4096)) count=$((size / 4096)) status=none | base64 -w 0`
	// poke takes pairs of an offset and what to write there, in base64. No thread runs meanwhile.
	poke = vdso + `trap 'kill -CONT "$pid"' EXIT
stopped=
kill -STOP "$pid" || exit 1
for _ in $(seq 100); do
  grep -h '^State:' "/proc/$pid"/task/*/status | grep -q -v '^State:.T' || { stopped=yes; break; }
  sleep 0.01
done
[ -n "$stopped" ] || { echo "process $pid does not stand still" >&2; exit 1; }
while [ $# -gt 0 ]; do
  echo "$2" | base64 -d | dd of="/proc/$pid/mem" bs=1 seek=$((from + $1)) conv=notrunc status=none || exit 1
  shift 2
done`
)

// End is a script of sh that gives the processes whose ids are its arguments the time of day of the machine. It leaves alone what has no such instructions, which it
// knows by the first eight bytes, and what is gone.
const End = `for pid; do
  to=$(sed -n 's/^[0-9a-f]*-\([0-9a-f]*\) .*\[vdso\]$/\1/p' "/proc/$pid/maps" 2>/dev/null)
  [ -n "$to" ] || continue
  at=$((0x$to))
  [ "$(dd if="/proc/$pid/mem" bs=8 skip=$(((at - 128) / 8)) count=1 status=none | od -An -tx1 | tr -d ' ')" = b8e40000000f0585 ] &&
    dd if=/dev/zero of="/proc/$pid/mem" bs=8 seek=$(((at - 8) / 8)) count=1 conv=notrunc status=none
done
true`

// Process lets a process see a time of day that is ahead of the machine's, or behind it where by is negative, in whole seconds.
func Process(ctx context.Context, run Run, pid string, by time.Duration) error {
	out, err := run(ctx, peek, pid)
	image, wrong := base64.StdEncoding.DecodeString(strings.TrimSpace(out))
	if err := errors.Join(err, wrong); err != nil {
		return fmt.Errorf("read the vDSO of process %s: %w", pid, err)
	}
	writes, err := redirect(image, by)
	if err != nil {
		return fmt.Errorf("process %s: %w", pid, err)
	}
	args := []string{pid}
	for _, w := range writes {
		args = append(args, strconv.Itoa(w.at), base64.StdEncoding.EncodeToString(w.code))
	}
	if _, err := run(ctx, poke, args...); err != nil {
		return fmt.Errorf("write the vDSO of process %s: %w", pid, err)
	}
	return nil
}

// write is what is to stand at an offset of the vDSO.
type write struct {
	at   int
	code []byte
}

// room is what the instructions and the seconds take at the end of the vDSO, in bytes. The seconds are the last eight.
const room = 128

// functions are those that tell the time of day, with what does it instead, in the machine code of amd64. Each of them ends with an
// instruction that uses the seconds, whose address relative to the next one belongs where four zeros stand, and what follows it.
var functions = []struct {
	name         string
	before, then []byte
}{
	{"__vdso_clock_gettime", []byte{
		0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xc0, // test eax, eax
		0x75, 0x13, // jnz ret
		0x85, 0xff, // test edi, edi: CLOCK_REALTIME
		0x74, 0x05, // jz add
		0x83, 0xff, 5, // cmp edi, CLOCK_REALTIME_COARSE
		0x75, 0x0a, // jne ret
		0x48, 0x8b, 0x0d, // add: mov rcx, [seconds]
	}, []byte{
		0x48, 0x01, 0x0e, // add [rsi], rcx
		0xc3, // ret
	}},
	{"__vdso_gettimeofday", []byte{
		0xb8, 96, 0, 0, 0, // mov eax, SYS_gettimeofday
		0x0f, 0x05, // syscall
		0x48, 0x85, 0xff, // test rdi, rdi
		0x74, 0x0a, // jz ret
		0x48, 0x8b, 0x0d, // mov rcx, [seconds]
	}, []byte{
		0x48, 0x01, 0x0f, // add [rdi], rcx
		0xc3, // ret
	}},
	{"__vdso_time", []byte{
		0xb8, 201, 0, 0, 0, // mov eax, SYS_time
		0x0f, 0x05, // syscall
		0x48, 0x03, 0x05, // add rax, [seconds]
	}, []byte{
		0x48, 0x85, 0xff, // test rdi, rdi
		0x74, 0x03, // jz ret
		0x48, 0x89, 0x07, // mov [rdi], rax
		0xc3, // ret
	}},
}

// redirect tells what to write into a vDSO, so that it adds to the time: first the instructions, then where the functions begin.
func redirect(image []byte, by time.Duration) ([]write, error) {
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, fmt.Errorf("read the vDSO as an ELF file: %w", err)
	}
	if file.Machine != elf.EM_X86_64 {
		return nil, fmt.Errorf("%w: it is done on amd64 only, and this machine is %s", ErrUnsupported, file.Machine)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return nil, fmt.Errorf("read the symbols of the vDSO: %w", err)
	}
	base := len(image) - room
	code := make([]byte, 0, room)
	var jumps []write
	for _, f := range functions {
		at, found := 0, false
		for _, s := range symbols {
			if s.Name == f.name {
				at, found = int(s.Value), true
			}
		}
		if !found || at+5 > base {
			return nil, fmt.Errorf("%w: the vDSO of this kernel has no %s", ErrUnsupported, f.name)
		}
		jumps = append(jumps, write{at, relative([]byte{0xe9}, at+1, base+len(code))}) // jmp
		code = append(code, f.before...)
		code = append(relative(code, base+len(code), len(image)-8), f.then...)
	}
	code = append(code, make([]byte, room-8-len(code))...)
	code = binary.LittleEndian.AppendUint64(code, uint64(by/time.Second))
	if there := image[base:]; !bytes.Equal(there[:room-8], code[:room-8]) && len(bytes.Trim(there, "\x00")) > 0 {
		return nil, fmt.Errorf("%w: the vDSO of this kernel has no room of %d bytes at its end", ErrUnsupported, room)
	}
	return append([]write{{base, code}}, jumps...), nil
}

// relative appends the address of a target to code, relative to the instruction after the four bytes that stand at an offset.
func relative(code []byte, at, target int) []byte {
	return binary.LittleEndian.AppendUint32(code, uint32(int32(target-(at+4))))
}
