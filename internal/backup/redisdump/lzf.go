package redisdump

import "fmt"

// lzfRatio is how many bytes one byte of LZF stands for at most: 3 bytes repeat up to 264.
const lzfRatio = 88

// lzfExpand appends what LZF-compressed data stands for, exactly want bytes of it. The format: a control byte below 32 is followed by one
// byte more of literals than it says; else its upper three bits are a length less 2 (7: the next byte is added to that), and its lower
// five together with the next byte how far back, less 1, what repeats begins. http://oldhome.schmorp.de/marc/liblzf.html
func lzfExpand(dst, in []byte, want uint64) ([]byte, error) {
	if want > lzfRatio*uint64(len(in)) {
		return nil, fmt.Errorf("%w: %d bytes of LZF are to stand for %d", ErrDamaged, len(in), want)
	}
	start, end := len(dst), len(dst)+int(want) //nolint:gosec // It was just bounded by the length of what is there.
	for len(in) > 0 {
		control := int(in[0])
		in = in[1:]
		if control < 32 {
			if control+1 > len(in) || len(dst)+control+1 > end {
				return nil, errLZF()
			}
			dst, in = append(dst, in[:control+1]...), in[control+1:]
			continue
		}
		length := control >> 5
		if length == 7 && len(in) > 0 {
			length, in = length+int(in[0]), in[1:]
		}
		if len(in) == 0 {
			return nil, errLZF()
		}
		from := len(dst) - (control&31)<<8 - int(in[0]) - 1
		in = in[1:]
		if from < start || len(dst)+length+2 > end {
			return nil, errLZF()
		}
		for i := range length + 2 { // It may repeat what it just wrote, so byte by byte.
			dst = append(dst, dst[from+i])
		}
	}
	if len(dst) != end {
		return nil, errLZF()
	}
	return dst, nil
}

func errLZF() error { return fmt.Errorf("%w: LZF that does not decompress", ErrDamaged) }
