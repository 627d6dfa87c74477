import { CheckRequest, CheckResponse } from '../../../proto/gen/authz.ts';
import { reasonOf } from '../../base/errors.ts';
import { GRPC, type GrpcAnswer, type GrpcHandler } from '../../base/http2/grpc-server.ts';
import type { RequestJudgement, CheckQuestion, RequestJudge } from './request-judge.ts';

/** The call by which a proxy asks. */
export const CHECK = '/envoy.service.auth.v3.Authorization/Check';
const HEALTH = '/grpc.health.v1.Health/Check';
const PERMISSION_DENIED = 7;
/** `HealthCheckResponse` with status SERVING and NOT_SERVING. */
const SERVING = Buffer.from([8, 1]);
const NOT_SERVING = Buffer.from([8, 2]);

interface CheckPorts {
  readonly judge: RequestJudge;
  readonly onJudged: (question: CheckQuestion, judgement: RequestJudgement) => void;
  /** Called with why a check got no answer. */
  readonly onFailure: (reason: string) => void;
}

/**
 * Answers the checks of a proxy. "Denied" and "could not tell" are two answers: the second is a failed call, which the proxy turns into
 * 503, so that the user does not look for a policy that denies.
 */
export function checkHandler({ judge, onJudged, onFailure }: CheckPorts): GrpcHandler {
  const check = (message: Buffer): GrpcAnswer => {
    try {
      const question = readCheck(message);
      const judgement = judge.judge(question);
      onJudged(question, judgement);
      return { message: answerTo(judgement) };
    } catch (cause) {
      onFailure(reasonOf(cause));
      return { error: GRPC.unavailable, text: reasonOf(cause) };
    }
  };
  return (method, message) => {
    if (method === CHECK) return check(message);
    if (method === HEALTH) return { message: judge.isReady ? SERVING : NOT_SERVING };
    return { error: GRPC.unimplemented, text: 'netplug-sidecar serves Authorization/Check and Health/Check' };
  };
}

/** Returns what the bytes of a `CheckRequest` ask. @throws for bytes that are no check, or one without addresses */
export function readCheck(message: Buffer): CheckQuestion {
  const { attributes } = CheckRequest.decode(message);
  const [source, destination] = [attributes?.source, attributes?.destination];
  const [from, to] = [source?.address?.socketAddress, destination?.address?.socketAddress];
  if (from === undefined || to === undefined) throw new Error('a check without addresses');
  const http = attributes?.request?.http;
  return {
    source: { address: from.address, port: from.portValue, principal: source?.principal ?? '' },
    destination: { address: to.address, port: to.portValue },
    request: http === undefined ? undefined : { method: http.method, target: http.path },
  };
}

const ALLOWED = CheckResponse.encode({ status: { code: 0 }, dynamicMetadata: undefined }).finish();
/** By text, because there are as many as rules. */
const answers = new Map<string, Uint8Array>();
const MOST_ANSWERS = 4096;

/** The rule is for the proxy's access log alone: a client learns nothing of policies. */
function answerTo(judgement: RequestJudgement): Uint8Array {
  if (judgement.kind === 'unasked') return ALLOWED;
  const { verdict, decision } = judgement.end;
  const rule = ruleText(decision);
  const key = `${verdict} ${rule}`;
  const known = answers.get(key);
  if (known !== undefined) return known;
  const answer = CheckResponse.encode({
    status: { code: verdict === 'allow' ? 0 : PERMISSION_DENIED },
    dynamicMetadata: { fields: { rule: { stringValue: rule } } },
  }).finish();
  if (answers.size >= MOST_ANSWERS) answers.clear();
  answers.set(key, answer);
  return answer;
}

/** Returns what decided, such as `NetworkPolicy shop/web, ingress[0]`. */
function ruleText(decision: Extract<RequestJudgement, { kind: 'judged' }>['end']['decision']): string {
  if (decision.kind === 'rule') return `${decision.policy}, ingress[${String(decision.index)}]`;
  if (decision.kind === 'profile rule') return `Profile ${decision.profile}, ingress[${String(decision.index)}]`;
  return decision.kind;
}
