package backendtest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// misbehave is a stdio server of revision 2025-11-25 that deviates as its name says:
//
//	exits    exits at once, with a line on stderr
//	mute     reads and never responds
//	malformed writes malformed lines around every response
//	dies     is killed when a tool is called
//	shy      exits at any message before initialize
//	deaf     ignores all messages before initialize
//	stubborn ignores SIGTERM and the end of its input, and has a child that does, too;
//	         the tool "pids" returns both process ids
//	flood    writes a line without end when a tool is called
//	curious  asks for the roots as soon as it is initialized; the tool "pids" returns the answer
//	late     announces the end of an elicitation after a tool has answered
//	crossed  answers every second call before the first, and logs a message ahead of each answer
//	parrot   responds to a call with the members in its argument "answer"
//	slow     takes longer to start than a probe waits, then speaks 2026-07-28 only
//	sleepy   is as slow, and speaks 2025-11-25 as well
func misbehave(name string) {
	p := &player{name: name, out: bufio.NewWriter(os.Stdout)}
	switch name {
	case "exits":
		fmt.Fprintln(os.Stderr, "cannot find my config")
		os.Exit(3)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		p.descendant = exec.Command("sh", "-c", `trap "" TERM; while :; do sleep 1; done`)
		p.descendant.Start()
	case "slow", "sleepy":
		time.Sleep(4 * time.Second)
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		m, err := wire.Parse(append([]byte(nil), in.Bytes()...))
		switch {
		case err != nil || name == "mute":
		case m.IsRequest():
			p.answer(m)
		case name == "curious" && m.Method == wire.Initialized:
			p.send(wire.Request([]byte(`"r"`), wire.RootsList, nil))
		case name == "curious" && m.IsResponse():
			p.roots = string(m.Append(nil))
		}
	}
	if name == "stubborn" {
		select {}
	}
}

// player is the state of one misbehaving server.
type player struct {
	name        string
	out         *bufio.Writer
	initialized bool
	descendant  *exec.Cmd
	roots       string        // the answer to roots/list
	held        *wire.Message // the first of two crossed calls
}

func (p *player) answer(m wire.Message) {
	if !p.initialized && m.Method != wire.Initialize && p.name != "slow" && p.name != "sleepy" {
		switch p.name {
		case "shy":
			os.Exit(1)
		case "deaf":
			return
		}
		p.send(wire.Failure(m.ID, wire.Errorf(wire.InvalidRequest, "not initialized")))
		return
	}
	switch {
	case p.name == "slow" && m.Method == wire.Initialize:
		p.send(wire.Failure(m.ID, wire.Errorf(wire.MethodNotFound, "no such method")))
	case p.name == "sleepy" && m.Method == wire.Discover:
		p.send(wire.Result(m.ID, []byte(`{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{}}}`)))
	case m.Method == wire.Discover:
		p.send(wire.Result(m.ID, []byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)))
	case m.Method == wire.Initialize:
		p.initialized = true
		p.send(wire.Result(m.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`)))
	case m.Method == wire.ToolsList:
		p.send(wire.Result(m.ID, []byte(`{"tools":[{"name":"pids","inputSchema":{}}]}`)))
	case m.Method == wire.ToolsCall:
		p.call(m)
	default:
		p.send(wire.Result(m.ID, []byte(`{}`)))
	}
}

func (p *player) call(m wire.Message) {
	text := "fine"
	switch p.name {
	case "dies":
		self, _ := os.FindProcess(os.Getpid())
		self.Kill()
	case "flood":
		for {
			p.out.WriteString(strings.Repeat("x", 1<<16))
		}
	case "parrot":
		fmt.Fprintf(p.out, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, jsonscan.Text(jsonscan.GetPath(m.Params, "arguments", "answer")))
		p.out.Flush()
		return
	case "curious":
		text = p.roots
	case "stubborn":
		text = fmt.Sprint(os.Getpid(), " ", p.descendant.Process.Pid)
	}
	answer := fmt.Appendf(nil, `{"content":[{"type":"text","text":%q}]}`, text)
	if p.name == "crossed" {
		if p.held == nil {
			p.held = &m
			return
		}
		message := wire.Notification(wire.LogMessage, []byte(`{"level":"info","data":"x"}`))
		fmt.Fprintf(p.out, "%s\n%s\n", message, wire.Result(m.ID, answer))
		p.out.Flush()
		time.Sleep(20 * time.Millisecond) // a slow client is still handling the first message
		fmt.Fprintf(p.out, "%s\n", message)
		m, p.held = *p.held, nil
	}
	p.send(wire.Result(m.ID, answer))
	if p.name == "late" {
		time.Sleep(50 * time.Millisecond) // the call has ended by then
		p.send(wire.Notification(wire.ElicitComplete, []byte(`{"elicitationId":"1"}`)))
	}
}

func (p *player) send(frame []byte) {
	if p.name == "malformed" {
		fmt.Fprintf(p.out, "starting up...\n\n{not json\n[1,2]\n{\"jsonrpc\":\"2.0\",\"id\":987654,\"result\":{}}\n%s\r\n\xff\xfe\n", frame)
	} else {
		fmt.Fprintf(p.out, "%s\n", frame)
	}
	p.out.Flush()
}
