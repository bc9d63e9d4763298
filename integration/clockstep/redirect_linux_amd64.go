package clockstep

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"syscall"
)

// substitute is what clock_gettime(edi: clock, rsi: result) is replaced by: the
// system call, and for CLOCK_REALTIME (0) a number that is kept behind the code
// added to the seconds. It changes no more registers than C may.
var substitute = []byte{
	0xb8, 0xe4, 0x00, 0x00, 0x00, //       mov eax, 228 (SYS_clock_gettime)
	0x0f, 0x05, //                         syscall
	0x85, 0xff, //                         test edi, edi
	0x75, 0x0a, //                         jnz to the return
	0x48, 0x8b, 0x0d, 0x2e, 0, 0, 0, //    mov rcx, [rip + 46], which is at offsetAt
	0x48, 0x01, 0x0e, //                   add [rsi], rcx
	0xc3, //                               ret
}

const offsetAt = 64

// redirect leads the vDSO's clock_gettime to the substitute. The process's own
// mapping of the vDSO is private to it.
func redirect() (offset, error) {
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return nil, unsupported(err)
	}
	defer memory.Close()
	entry, err := clockGettime(memory)
	if err != nil {
		return nil, unsupported(err)
	}
	page, err := syscall.Mmap(-1, 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE|syscall.PROT_EXEC, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, unsupported(err)
	}
	copy(page, substitute)
	if _, err := memory.WriteAt(jumpTo(reflect.ValueOf(page).Pointer()), entry); err != nil {
		return nil, unsupported(err)
	}
	return func(seconds int64) { binary.NativeEndian.PutUint64(page[offsetAt:], uint64(seconds)) }, nil
}

func unsupported(err error) error { return fmt.Errorf("%w: %w", ErrUnsupported, err) }

// jumpTo is mov r11, address; jmp r11.
func jumpTo(address uintptr) []byte {
	code := binary.LittleEndian.AppendUint64([]byte{0x49, 0xbb}, uint64(address))
	return append(code, 0x41, 0xff, 0xe3)
}

// clockGettime is the address of the function in this process.
func clockGettime(memory io.ReaderAt) (int64, error) {
	from, to, err := vdso()
	if err != nil {
		return 0, err
	}
	image := make([]byte, to-from)
	if _, err := memory.ReadAt(image, from); err != nil {
		return 0, fmt.Errorf("reading the vDSO: %w", err)
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, fmt.Errorf("the vDSO: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("the vDSO: %w", err)
	}
	for _, symbol := range symbols {
		if symbol.Name == "__vdso_clock_gettime" {
			return from + int64(symbol.Value), nil
		}
	}
	return 0, fmt.Errorf("the vDSO has no clock_gettime")
}

// vdso is where the kernel has put it.
func vdso() (from, to int64, err error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			_, err := fmt.Sscanf(line, "%x-%x", &from, &to)
			return from, to, err
		}
	}
	return 0, 0, fmt.Errorf("there is no vDSO")
}
