import { describe, expect, it } from 'vitest';
import type { DeclaredSidecar } from '../../../../model/declared-sidecar.ts';
import type { GuardProof } from '../../../../policy/feed/messages.ts';
import { PodGuard, type WantedProof } from './pod-guard.ts';

const DECLARED: DeclaredSidecar = { release: 'v3.27.0', isRedirected: true, excludedPorts: [22] };
const PROOF: GuardProof = {
  ports: [8080, 22],
  open: [{ port: 9000, why: 'open' }],
  families: [4, 6],
  proxy: '1.40.0',
  problems: [],
};
const NO_PROOF: GuardProof = { ports: [], open: [], families: [], proxy: '', problems: ['it does not answer'] };

const CANDIDATES = [8080, 8081, 22];

function guardAt(nowMs = 0): PodGuard {
  const guard = new PodGuard(DECLARED);
  guard.connected();
  guard.sent(1, { nowMs, asks: true });
  guard.applied(1);
  guard.proved(PROOF);
  return guard;
}

const standing = (guard: PodGuard, nowMs: number, wanted: WantedProof = 'Filter') => [
  guard.stateAt(nowMs, wanted),
  guard.guardedAt(nowMs, wanted, CANDIDATES).ports,
];

describe('the guard of a pod', () => {
  it('opens nothing before its sidecar has policies, and its proxy has shown that it asks', () => {
    const guard = new PodGuard(DECLARED);
    expect(standing(guard, 0)).toEqual(['waiting', []]);
    guard.connected();
    guard.sent(1, { nowMs: 0, asks: true });
    expect(standing(guard, 0)).toEqual(['waiting', []]);
    guard.applied(1);
    expect(standing(guard, 0)).toEqual(['unproven', []]);
    guard.proved(NO_PROOF);
    expect(standing(guard, 0)).toEqual(['unproven', []]);
  });

  it('opens what the proxy shows, and is handed', () => {
    expect(standing(guardAt(), 0)).toEqual(['guarding', [8080]]);
  });

  it('opens what rules ask for where no proof is wanted, and the proxy is handed', () => {
    const guard = new PodGuard(DECLARED);
    guard.connected();
    guard.sent(1, { nowMs: 0, asks: true });
    guard.applied(1);
    expect(standing(guard, 0, 'Connected')).toEqual(['guarding', [8080, 8081]]);
  });

  it('opens nothing when the proxy shows nothing any more', () => {
    const guard = guardAt();
    guard.proved(NO_PROOF);
    expect(standing(guard, 0)).toEqual(['unproven', []]);
  });

  it('opens nothing while the sidecar is more than five seconds behind', () => {
    const guard = guardAt();
    guard.sent(2, { nowMs: 1000, asks: true });
    guard.sent(3, { nowMs: 5000, asks: true });
    expect(standing(guard, 5999)).toEqual(['guarding', [8080]]);
    expect(guard.nextChangeMs(5999)).toBe(6000);
    expect(standing(guard, 6000)).toEqual(['unproven', []]);
    guard.applied(2);
    expect(standing(guard, 6000)).toEqual(['guarding', [8080]]);
  });

  it('keeps what was open for ten seconds when the sidecar is lost, and until it has shown it again', () => {
    const guard = guardAt();
    guard.lost(1000, 'Filter', CANDIDATES);
    expect(standing(guard, 10_999)).toEqual(['lapsed', [8080]]);
    expect(guard.nextChangeMs(10_999)).toBe(11_000);
    guard.connected();
    guard.sent(1, { nowMs: 10_000, asks: true });
    guard.applied(1);
    expect(standing(guard, 10_999)).toEqual(['lapsed', [8080]]);
    expect(standing(guard, 11_000)).toEqual(['unproven', []]);
    guard.proved(PROOF);
    expect(standing(guard, 11_000)).toEqual(['guarding', [8080]]);
  });

  it('does not keep what was not open when the sidecar was lost', () => {
    const guard = new PodGuard(DECLARED);
    guard.connected();
    guard.proved(PROOF);
    guard.lost(0, 'Filter', CANDIDATES);
    expect(standing(guard, 1)).toEqual(['waiting', []]);
  });

  it('closes at once when the proxy shows that it does not ask, also just after the sidecar came back', () => {
    const guard = guardAt();
    guard.lost(0, 'Filter', CANDIDATES);
    guard.connected();
    guard.sent(1, { nowMs: 0, asks: true });
    guard.applied(1);
    guard.proved(NO_PROOF);
    expect(standing(guard, 1)).toEqual(['unproven', []]);
  });

  it('keeps what an earlier agent knew', () => {
    const guard = new PodGuard(DECLARED, { ports: [8080], families: [4], lostMs: 0 });
    expect(standing(guard, 9999)).toEqual(['lapsed', [8080]]);
    expect(standing(guard, 10_000)).toEqual(['waiting', []]);
  });

  it('opens nothing before the sidecar judges requests, whatever the proxy shows', () => {
    const guard = new PodGuard(DECLARED, { ports: [8080], families: [4], lostMs: 0 });
    guard.connected();
    guard.sent(1, { nowMs: 0, asks: false });
    guard.applied(1);
    guard.proved(PROOF);
    guard.sent(2, { nowMs: 0, asks: true });
    expect(guard.guardedAt(0, 'Filter', CANDIDATES).ports).toEqual([]);
    guard.applied(2);
    expect(guard.guardedAt(0, 'Filter', CANDIDATES).ports).toEqual([8080]);
  });

  it('opens the families alone in which the proxy receives connections', () => {
    const guard = guardAt();
    guard.proved({ ...PROOF, families: [4] });
    expect(guard.guardedAt(0, 'Filter', CANDIDATES)).toEqual({ ports: [8080], families: [4] });
  });

  it('gains no time by a sidecar that comes back and is lost again', () => {
    const guard = guardAt();
    guard.lost(0, 'Filter', CANDIDATES);
    guard.connected();
    guard.lost(9000, 'Filter', CANDIDATES);
    expect(standing(guard, 9999)).toEqual(['lapsed', [8080]]);
    expect(standing(guard, 10_000)).toEqual(['waiting', []]);
  });

  it('opens no more ports than the kernel may hold for one pod', () => {
    const guard = guardAt();
    guard.proved({ ...PROOF, ports: Array.from({ length: 500 }, (_, at) => 20_000 + at) });
    expect(guard.guardedAt(0, 'Filter', CANDIDATES).ports).toHaveLength(256);
  });
});
