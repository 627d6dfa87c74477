import { type Address, tryParseAddress } from '../../net/address.ts';
import { type EndVerdict, evaluateEnd } from '../../policy/evaluate.ts';
import type { FedPart, IdentityMode } from '../../policy/feed/messages.ts';
import { ReceivedView } from '../../policy/feed/received-view.ts';
import type { Packet } from '../../policy/match-packet.ts';
import { narrowView } from '../../policy/narrow-view.ts';
import { type PacketContent, requestContent, type RequestPeer } from '../../policy/packet-content.ts';
import type { PolicyView } from '../../policy/policy-view.ts';
import type { PolicyEndpoint } from '../../policy/resolved-policy.ts';
import { accountOf } from './principal.ts';

const TCP = 6;
/** Clients whose rules are kept, and policies in all of them together. */
const MOST_CLIENTS = 1024;
const MOST_KEPT = 65_536;
/** Of what tells clients apart: addresses and a certificate's name. Beyond, what is found is not kept. */
const MOST_KEY = 512;

/** What a proxy asks: about a request, or about a connection when there is none. */
export interface CheckQuestion {
  readonly source: { readonly address: string; readonly port: number; readonly principal: string };
  readonly destination: { readonly address: string; readonly port: number };
  readonly request: { readonly method: string; readonly target: string } | undefined;
}

/** `unasked` when no rule is about requests: whatever the kernel let pass may go on. */
export type RequestJudgement =
  | { readonly kind: 'judged'; readonly end: EndVerdict; readonly content: PacketContent }
  | { readonly kind: 'unasked' };

/** Who is believed. */
export interface Identity {
  readonly trustDomains: readonly string[];
  readonly mode: IdentityMode;
}

/** The proxy asks something that no policy answers. The proxy must take it for a failure, not for a denial. */
export class CannotJudge extends Error {}

/** A client of one port of the pod, and the rules that can match its requests. */
interface Client {
  readonly peer: RequestPeer | undefined;
  readonly packet: Omit<Packet, 'sourcePort' | 'content'>;
  readonly view: PolicyView;
}

/** Judges the requests that one pod receives, by the policies that the agent has fed. */
export class RequestJudge {
  #view = new ReceivedView();
  /** By what the proxy says of them. */
  readonly #clients = new Map<string, Client>();
  #identity: Identity = { trustDomains: [], mode: 'AddressOrCertificate' };

  get isReady(): boolean {
    return this.#view.endpoint !== undefined;
  }

  get pod(): string | undefined {
    return this.#view.endpoint?.shown;
  }

  believe(identity: Identity): void {
    this.#identity = identity;
    this.#clients.clear();
  }

  /** Applies what the agent says, after what it said before or in place of it. All of it is in force at once. */
  apply(parts: readonly FedPart[], which: 'more' | 'whole'): void {
    const view = which === 'more' ? this.#view : new ReceivedView();
    view.apply(parts);
    this.#view = view;
    this.#clients.clear();
  }

  /** @throws CannotJudge, or MissingPart of the view */
  judge({ source, destination, request }: CheckQuestion): RequestJudgement {
    const { endpoint } = this.#view;
    if (endpoint === undefined) throw new CannotJudge('the agent of the node has not said which policies apply');
    if (!this.#view.asks) return { kind: 'unasked' };
    const { peer, packet, view } = this.#clientOf(endpoint, { source, destination, request });
    const content = contentOf(request, peer);
    return {
      kind: 'judged',
      end: evaluateEnd(view, {
        endpoint,
        direction: 'ingress',
        packet: { ...packet, sourcePort: source.port, content },
      }),
      content,
    };
  }

  #peerOf(principal: string): RequestPeer | undefined {
    const account = principal === '' ? undefined : accountOf(principal, this.#identity.trustDomains);
    return account ?? (this.#identity.mode === 'Certificate' ? 'nobody' : undefined);
  }

  #clientOf(endpoint: PolicyEndpoint, question: CheckQuestion): Client {
    const { source, destination, request } = question;
    const kind = request === undefined ? 'stream' : 'request';
    const key = `${kind} ${source.address} ${destination.address} ${String(destination.port)} ${source.principal}`;
    const known = this.#clients.get(key) ?? this.#newClient(endpoint, question);
    if (key.length > MOST_KEY) return known;
    // The one that was not asked about for longest goes first.
    this.#clients.delete(key);
    this.#clients.set(key, known);
    const most = Math.min(MOST_CLIENTS, Math.max(1, Math.floor(MOST_KEPT / Math.max(1, this.#view.policyCount))));
    const [oldest] = this.#clients.keys();
    if (this.#clients.size > most && oldest !== undefined) this.#clients.delete(oldest);
    return known;
  }

  #newClient(endpoint: PolicyEndpoint, { source, destination, request }: CheckQuestion): Client {
    const packet = {
      source: readAddress(source.address),
      destination: readAddress(destination.address),
      protocol: TCP,
      destinationPort: destination.port,
    };
    const peer = this.#peerOf(source.principal);
    const content = contentOf(request, peer);
    return { peer, packet, view: narrowView(this.#view, endpoint, { ...packet, content }) };
  }
}

function contentOf(request: CheckQuestion['request'], peer: RequestPeer | undefined): PacketContent {
  if (request !== undefined) return requestContent(request.method, request.target, peer);
  return { kind: 'stream', ...(peer === undefined ? {} : { peer }) };
}

function readAddress(text: string): Address {
  const address = tryParseAddress(text);
  if (address === undefined) throw new CannotJudge(`${JSON.stringify(text.slice(0, 64).toWellFormed())} is no address`);
  return address;
}
