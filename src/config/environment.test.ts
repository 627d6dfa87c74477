import { globSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CONNECTION_KEYS, ORCH_KEYS } from './decode-connection.ts';
import { DATASTORE_VARIABLES, ENVIRONMENT, readVariable } from './environment.ts';

/** Variables that other projects define: the CNI standard, Kubernetes, W3C Trace Context, the C library, the shell. */
const FOREIGN = /^(CNI_[A-Z_]+|KUBERNETES_SERVICE_(HOST|PORT)|TRACEPARENT|TRACESTATE|HOME|SUDO_USER)$/;

describe('an environment variable of netplug', () => {
  it.each([
    ['NETPLUG_SOCKET', '', '/run/netplug/cni.sock'],
    ['NETPLUG_STATE_DIR', undefined, '/var/lib/netplug'],
    ['NETPLUG_WARM_POOL_SIZE', '1024', 1024],
    ['NETPLUG_CALL_TIMEOUT', '0.5', 0.5],
    ['NETPLUG_NETWORKING', '', 'on'],
    ['NETPLUG_NETWORKING', 'policy', 'policy'],
    ['NETPLUG_INTERFACE_PREFIX', '', []],
    ['NETPLUG_INTERFACE_PREFIX', 'eni, vlan,eni', ['eni', 'vlan']],
    ['NETPLUG_TRACE', '1', true],
    ['NETPLUG_TRACE', 'yes', false],
    ['NETPLUG_HEALTH_ADDRESS', undefined, { host: '127.0.0.1', port: 9098 }],
    ['NETPLUG_HEALTH_ADDRESS', '', 'off'],
    ['NETPLUG_HEALTH_ADDRESS', '0.0.0.0:80', { host: '0.0.0.0', port: 80 }],
    ['NETPLUG_HEALTH_ADDRESS', '[::1]:9098', { host: '::1', port: 9098 }],
  ] as const)('is decoded or has its default: %s=%j', (name, value, expected) => {
    expect(readVariable({ [name]: value }, name)).toEqual(expected);
  });

  it('has a port for the health of the controllers that no agent of the node has', () => {
    const program = 'netplug-orch-controllers';
    expect(readVariable({}, 'NETPLUG_HEALTH_ADDRESS', program)).toEqual({ host: '127.0.0.1', port: 9094 });
    expect(readVariable({ NETPLUG_HEALTH_ADDRESS: '' }, 'NETPLUG_HEALTH_ADDRESS', program)).toBe('off');
  });

  it.each([
    ['NODENAME', ''],
    ['NODENAME', 'a/b'],
    ['NETPLUG_WARM_POOL_SIZE', '1025'],
    ['NETPLUG_WARM_POOL_SIZE', '1.5'],
    ['NETPLUG_CALL_TIMEOUT', '0'],
    ['NETPLUG_NETWORKING', 'no'],
    ...['l', 'lo', 'eni,', 'a b', 'e*', 'a-name-of-15-ch'].map(
      (prefix) => ['NETPLUG_INTERFACE_PREFIX', prefix] as const,
    ),
    ...['9098', ':9098', '127.0.0.1', '127.0.0.1:65536', '::1:9098', '1.2.3:80', 'localhost:80'].map(
      (address) => ['NETPLUG_HEALTH_ADDRESS', address] as const,
    ),
  ] as const)('is refused with its name, its value and what is allowed: %s=%j', (name, value) => {
    const { allowed } = ENVIRONMENT[name];
    expect(() => readVariable({ [name]: value }, name)).toThrow(
      expect.objectContaining({
        code: 'cni/env-invalid',
        message: `Cannot use the environment: ${name} is ${JSON.stringify(value)}`,
        hint: `Set ${name} to ${allowed}, or unset it`,
      }),
    );
  });

  it('is declared in environment.ts when any file reads it', () => {
    const names = globSync('src/**/*.ts', { exclude: ['**/*.test.ts'] }).flatMap((file) =>
      [...readFileSync(file, 'utf8').matchAll(/\benv\['(\w+)'\]|\benv\.([A-Z][A-Z_]+)/g)].map(
        ([, a, b]) => a ?? b ?? '',
      ),
    );
    expect(names).toContain('CNI_COMMAND');
    expect(names.filter((name) => !FOREIGN.test(name) && !(name in DATASTORE_VARIABLES))).toEqual([]);
  });

  it('has the name of a key of the network configuration when it is for the datastore', () => {
    expect(Object.keys(DATASTORE_VARIABLES)).toEqual(
      [...CONNECTION_KEYS, ...ORCH_KEYS].map((key) => key.toUpperCase()),
    );
  });
});
