import { nodeName } from './fixtures.ts';
import { Channel } from '../../src/base/channel.ts';
import type { HostLink } from '../../src/dataplane/kernel.ts';
import type { Clock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import { MemoryPolicyFilter } from './memory/memory-policy-filter.ts';
import type { FilterTable, PacketLog } from '../../src/dataplane/policy-filter.ts';
import type { FollowEvent, FollowStore } from '../../src/datastore/follow.ts';
import { MemoryDatabase } from '../../src/datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../src/datastore/memory/memory-store.ts';
import type { RulesetSettings } from '../../src/policy/ruleset/policy-ruleset.ts';
import type { PolicyView } from '../../src/policy/policy-view.ts';
import { RulesetCompiler } from '../../src/policy/ruleset/ruleset-compiler.ts';
import type { ServicePort } from '../../src/model/service-endpoints.ts';
import type { WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import type { ListedEndpoint } from '../../src/apps/agent/network/policy/local-pods.ts';
import type {
  EnforcementPorts,
  PolicyCompiler,
  PolicySettings,
  PolicyStart,
} from '../../src/apps/agent/network/policy/enforcement-ports.ts';
import { PolicyEnforcement } from '../../src/apps/agent/network/policy/policy-enforcement.ts';

export const never = new AbortController().signal;
export const POLICY = {
  policyLogPrefix: 'p',
  defaultEndpointToHostAction: 'Accept',
  failsafeInboundHostPorts: [],
  failsafeOutboundHostPorts: [],
  policyEntriesPerPolicy: 131_072,
  policyEntriesPerNamespace: 524_288,
  policyEntriesPerNode: 1_048_576,
} as const;

/** Time passes when the test says so. */
export class TestClock implements Clock {
  #now = 0;
  readonly #sleepers = new Set<() => void>();

  readonly now = (): number => this.#now;
  readonly monotonic = (): number => this.#now;

  readonly sleep = async (ms: number, signal: AbortSignal): Promise<void> => {
    const until = this.#now + ms;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const wake = (): void => {
      if (this.#now < until) return;
      this.#sleepers.delete(wake);
      resolve();
    };
    this.#sleepers.add(wake);
    const give = (): void => {
      this.#sleepers.delete(wake);
      reject(new Error('aborted'));
    };
    if (signal.aborted) give();
    signal.addEventListener('abort', give, { once: true });
    return promise;
  };

  async pass(ms: number): Promise<void> {
    this.#now += ms;
    for (const wake of this.#sleepers) wake();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

export function endpointOf(name: string, interfaceName: string): WorkloadEndpoint {
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: { name, namespace: 'shop' },
    spec: {
      orchestrator: 'orch',
      node: 'a',
      network: 'n',
      containerID: name,
      endpoint: 'eth0',
      interfaceName,
      mac: '',
      ipNetworks: ['10.0.0.1/32'],
      profiles: [],
      ipam: 'netplug-ipam',
    },
  };
}

/** A host, whose tables and memory outlive its processes, and its datastore. */
export class TestHost {
  readonly clock = new TestClock();
  readonly tables = new Map<string, FilterTable>();
  readonly filter = new MemoryPolicyFilter(this.tables);
  readonly store = openMemoryStore(new MemoryDatabase(), {
    fault: (operation) => (operation === 'follow' && !this.isReadable ? { kind: 'refused' } : undefined),
  });
  readonly stop = new AbortController();
  isReadable = true;
  isRemembered = false;
  /** Called with each view before it is compiled. */
  onCompile: (view: PolicyView) => void = () => undefined;
  compilation: RulesetSettings = { node: 'a', logPrefix: 'p', endpointToHostAction: 'Accept' };
  settings: PolicySettings = POLICY;
  settingsRead = Promise.resolve();
  listed: readonly ListedEndpoint[] = [];
  links: readonly HostLink[] = [];
  examinations = 0;
  readonly endedPods: string[] = [];
  rereads = 0;
  readHost: EnforcementPorts['readHost'] = async () => Promise.resolve({ interfaces: [], tunnels: [], servers: [] });
  servers: readonly ServicePort[] = [];
  onFlows: (whole: () => Promise<void>) => void = () => undefined;
  forget: () => void = () => undefined;
  remember: () => void = () => undefined;
  policyFilter: EnforcementPorts['policyFilter'] = () => ({
    apply: async (table, options) => {
      if (options.reread === true) this.rereads += 1;
      return this.filter.apply(table, options);
    },
    extend: async (table, sets, signal) => this.filter.extend(table, sets, signal),
    missingLogs: async (signal) => this.filter.missingLogs(signal),
    ruleIds: async (table, signal) => this.filter.ruleIds(table, signal),
    remove: async (table, signal) => this.filter.remove(table, signal),
  });

  #compilerFor(missingLogs: ReadonlySet<PacketLog>): PolicyCompiler {
    const compiler = new RulesetCompiler({ ...this.compilation, missingLogs });
    return {
      useHost: (links) => compiler.useHost(links),
      dropUnused: () => compiler.dropUnused(),
      compile: (view, touched) => {
        this.onCompile(view);
        return compiler.compile(view, touched);
      },
    };
  }

  start(start: PolicyStart): PolicyEnforcement {
    const policy = new PolicyEnforcement(
      {
        clock: this.clock,
        random: systemRandom,
        log: silentLog,
        policyStore: { follow: (queries, options) => this.follow(queries, options) },
        settingsRead: this.settingsRead,
        policyFilter: () => this.policyFilter(),
        compilerFor: (_, missingLogs) => this.#compilerFor(missingLogs),
        listLinks: () => this.links,
        listEndpoints: async () => Promise.resolve({ endpoints: this.listed, isComplete: true }),
        readHost: async () => this.readHost(),
        servers: () => this.servers,
        flows: (_, whole) => {
          this.onFlows(whole);
          return {
            trigger: () => void (this.examinations += 1),
            restore: () => void (this.examinations += 1),
            endAll: async ({ metadata }) => void this.endedPods.push(metadata.name),
            run: async () => Promise.resolve(),
          };
        },
        saveOn: () => {
          this.remember();
          this.isRemembered = true;
        },
        clearOn: () => {
          this.forget();
          this.isRemembered = false;
        },
      },
      { node: nodeName('a'), policy: this.settings, start },
    );
    void policy.run(this.stop.signal);
    return policy;
  }

  /** Fails the streams of the datastore. */
  loseWatch: (cause: Error) => void = () => undefined;

  follow: FollowStore['follow'] = (queries, options) => {
    const events = new Channel<FollowEvent>();
    const pump = async (): Promise<void> => {
      for await (const event of this.store.follow(queries, options)) events.push(event);
      events.close();
    };
    pump().catch((cause: unknown) => events.fail(cause));
    this.loseWatch = (cause) => events.fail(cause);
    return events;
  };

  /** Returns the verdict about the first packet of a connection from the interface. */
  verdict(interfaceName: string): 'accept' | 'drop' {
    return this.filter.judge('forward', {
      source: { family: 4, value: 0x0a000001n },
      destination: { family: 4, value: 0x0a000002n },
      protocol: 17,
      ports: { source: 1000, destination: 53 },
      state: 'new',
      inInterface: interfaceName,
      outInterface: 'eth0',
      isToHost: false,
    });
  }
}

const hosts: TestHost[] = [];

export function makeHost(): TestHost {
  const host = new TestHost();
  hosts.push(host);
  return host;
}

/** Ends the processes of all hosts. */
export function stopHosts(): void {
  for (const host of hosts.splice(0)) host.stop.abort();
}
