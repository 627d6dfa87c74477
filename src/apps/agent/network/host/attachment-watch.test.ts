import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { networkOf } from '../../../../../test/contract/suites/dataplane/kernel.ts';
import { MemoryKernel } from '../../../../../test/support/memory/memory-kernel.ts';
import { recordText } from '../../../../../test/support/runtime-record.ts';
import { virtualClock } from '../../../../base/clock.ts';
import { silentLog } from '../../../../base/log.ts';
import { seededRandom } from '../../../../base/random.ts';
import { type KeptNotes, memoryKeptNotes } from '../../../../cni/kept-notes.ts';
import { AttachmentWatch } from './attachment-watch.ts';

const NETNS = '/run/netns/cni-1';
const DAY_MS = 86_400_000;
const LASTING_MS = 300_000;
const never = new AbortController().signal;
const NOW = Date.parse('2026-01-01T00:00:00Z');
const UID = ['K8S_POD_UID', 'u1'];

let folder: string;
let kernel: MemoryKernel;
let clock: ReturnType<typeof virtualClock>;
let keptNotes: KeptNotes;
let events: string[];
let watch: AttachmentWatch;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-results-'));
  kernel = new MemoryKernel();
  kernel.addNetns(NETNS);
  clock = virtualClock(NOW);
  keptNotes = memoryKeptNotes();
  events = [];
  watch = new AttachmentWatch({
    clock,
    random: seededRandom(1),
    log: silentLog,
    kernel,
    keptNotes,
    runtimeRecords: folder,
    warn: async ({ namespace, name, uid }) => void events.push(`${namespace}/${name} ${uid}`),
  });
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

async function recordPod(): Promise<void> {
  const cniArgs = [['K8S_POD_NAMESPACE', 'shop'], ['K8S_POD_NAME', 'web'], UID];
  await writeFile(join(folder, 'k8s-pod-network-c1-eth0'), recordText({ netns: NETNS, cniArgs }));
}

describe('a running pod without an interface', () => {
  it('is a problem until it has one or has ended, and gets one event', async () => {
    await recordPod();
    await watch.look(never);
    await clock.sleep(LASTING_MS, never);
    for (const _ of [1, 2]) {
      await watch.look(never);
      expect(watch.problems()).toMatchObject([
        {
          code: 'attachments/unconnected',
          severity: 'error',
          text: expect.stringMatching(/^pod "shop\/web" has no interface/),
          remedy: expect.stringContaining('Delete the pod'),
        },
      ]);
    }
    expect(events).toEqual(['shop/web u1']);
    kernel.endNetns(NETNS);
    await watch.look(never);
    expect(watch.problems()).toEqual([]);
  });

  it('is none while its runtime may repeat a DEL that failed, nor when it had its interface in between', async () => {
    const connected = networkOf(NETNS, { containerId: 'c1' });
    await recordPod();
    for (const ms of [LASTING_MS - 1, 0]) {
      await watch.look(never);
      await clock.sleep(ms, never);
      await watch.look(never);
      await kernel.apply(connected, never);
      await watch.look(never);
      await kernel.remove(connected.hostLinkName, connected.owner);
    }
    expect([watch.problems(), events]).toEqual([[], []]);
  });
});

describe('an attachment that GC kept', () => {
  const kept = [{ containerId: 'c1', ifName: 'eth0', pod: 'shop/web', askedAt: undefined, goneSince: undefined }];
  const note = { network: 'net', at: new Date(NOW).toISOString(), kept };

  it('is a problem for a day, while it has its link', async () => {
    await kernel.apply(networkOf(NETNS, { containerId: 'c1' }), never);
    await keptNotes.put(note);
    await watch.readKept();
    expect(watch.problems()).toMatchObject([
      {
        code: 'attachments/kept',
        severity: 'warning',
        text: expect.stringMatching(
          /^a runtime called GC of network "net" at .* without 1 attachment .* kept: shop\/web$/,
        ),
        remedy: expect.stringContaining('disableGC'),
      },
    ]);
    await clock.sleep(DAY_MS + 1, never);
    await watch.readKept();
    expect(watch.problems()).toEqual([]);
  });

  it('is none once its link has gone', async () => {
    await keptNotes.put(note);
    await watch.readKept();
    expect(watch.problems()).toEqual([]);
  });
});
