import { describe, expect, it } from 'vitest';
import { decodeInvocation } from './invocation.ts';

const ADD = {
  CNI_COMMAND: 'ADD',
  CNI_CONTAINERID: 'c1',
  CNI_NETNS: '/run/netns/x',
  CNI_IFNAME: 'eth0',
  CNI_PATH: '/opt/cni/bin',
};

describe('the environment of a call', () => {
  it('is decoded', () => {
    expect(decodeInvocation({ ...ADD, CNI_PATH: '/a::/b', CNI_ARGS: 'IP=1.2.3.4' })).toEqual({
      command: 'ADD',
      containerId: 'c1',
      ifName: 'eth0',
      netns: '/run/netns/x',
      args: 'IP=1.2.3.4',
      path: ['/a', '/b'],
    });
  });

  it('is refused with the names of all missing variables', () => {
    expect(() => decodeInvocation({ CNI_COMMAND: 'ADD', CNI_IFNAME: 'eth0' })).toThrow(
      'CNI_CONTAINERID, CNI_NETNS, CNI_PATH are missing',
    );
    expect(() => decodeInvocation({ CNI_COMMAND: 'DEL', CNI_IFNAME: 'eth0' })).toThrow('CNI_CONTAINERID is missing');
  });

  it('needs neither namespace nor path for DEL', () => {
    expect(decodeInvocation({ CNI_COMMAND: 'DEL', CNI_CONTAINERID: 'c1', CNI_IFNAME: 'eth0' }).netns).toBe('');
  });

  it.each(['', 'add', 'FROB', 'constructor'])('refuses command %j', (command) => {
    expect(() => decodeInvocation({ ...ADD, CNI_COMMAND: command })).toThrow('CNI_COMMAND');
  });

  it.each(['', 'a/b', '-x', '../etc', 'a b', 'ä'])('refuses container id %j', (id) => {
    expect(() => decodeInvocation({ ...ADD, CNI_CONTAINERID: id })).toThrow('CNI_CONTAINERID');
  });

  it.each(['', '.', '..', 'a/b', 'a:b', 'a b', 'a\tb', '0123456789abcdef', 'ääääääää'])(
    'refuses interface name %j',
    (name) => {
      expect(() => decodeInvocation({ ...ADD, CNI_IFNAME: name })).toThrow('CNI_IFNAME');
    },
  );
});
