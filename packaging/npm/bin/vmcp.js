#!/usr/bin/env node
// Starts the program of this platform's package. Only the program uses standard input and output: this script writes
// nothing but errors. It forwards signals to the program and exits with its exit code.
'use strict'

const { spawn } = require('node:child_process')
const { constants } = require('node:os')

function find() {
  const name = `@vmcp-dev/vmcp-${process.platform}-${process.arch}`
  const program = process.platform === 'win32' ? 'vmcp.exe' : 'vmcp'
  try {
    return require.resolve(`${name}/bin/${program}`)
  } catch {
    const known = Object.keys(require('../package.json').optionalDependencies)
    console.error(
      known.includes(name)
        ? `vmcp: the package ${name} is not installed; it is an optional dependency, which npm leaves out with --omit=optional`
        : `vmcp: there is no package for ${process.platform}-${process.arch}, only ${known.join(', ')}`
    )
    process.exit(1)
  }
}

const child = spawn(find(), process.argv.slice(2), { stdio: 'inherit', windowsHide: true })

// A terminal sends its interrupt to every process in the foreground. If it were forwarded as well, the program would
// get two, and the second one ends it at once.
const terminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR2']) {
  process.on(signal, () => {
    if (!terminal || signal !== 'SIGINT') child.kill(signal)
  })
}

// npx runs this script in a shell. A signal to npx ends the shell but is not sent to this process: stop the program when
// the parent process is gone.
if (process.env.npm_lifecycle_event) {
  const parent = process.ppid
  setInterval(() => process.ppid === parent || child.kill('SIGTERM'), 500).unref()
}

child.on('error', (err) => {
  console.error(`vmcp: ${err.message}`)
  process.exit(1)
})
child.on('exit', (code, signal) => {
  if (!signal) process.exit(code)
  // End by the same signal as the program; a shell reports it as 128 plus its number.
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
  process.exit(128 + constants.signals[signal])
})
