#!/usr/bin/env node
// Starts the program of this platform's package. Standard input and output are the program's alone: nothing is
// written here but an error. Signals go on to the program, and its exit code comes back.
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

// A terminal sends its interrupt to every process in the foreground. Sent on as well it would be the second one,
// which ends the program at once.
const terminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR2']) {
  process.on(signal, () => {
    if (!terminal || signal !== 'SIGINT') child.kill(signal)
  })
}

// npx runs this in a shell, which a signal to npx ends without a word to us: the program must not outlive it.
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
  // This process ends as the program did, which a shell shows as 128 and the number of the signal.
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
  process.exit(128 + constants.signals[signal])
})
