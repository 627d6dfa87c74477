import { ERRORS } from '../../base/error-codes.ts';
import type { FollowService } from './follow-service.ts';
import type { RunningTypha } from './serve-typha.ts';

/** Returns why the server cannot serve now, a sentence each. A topic that the API refuses is only missing. */
export function typhaNotReady(running: RunningTypha | undefined): readonly string[] {
  if (running === undefined) return ['it has not begun to listen'];
  const reasons = [...running.service.topics].flatMap(({ topic, isLoaded, failure }) => {
    if (failure !== undefined) return ERRORS[failure.code].retry ? [`${topic}: ${failure.message}`] : [];
    return isLoaded ? [] : [`${topic} is being read`];
  });
  return reasons.length > 0 || running.isKnown()
    ? reasons
    : ['its Lease has not been written, by which agents find it'];
}

/** Returns the topics that the API refuses: their followers are told so. */
export function typhaWarnings(service: FollowService | undefined): readonly string[] {
  return [...(service?.topics ?? [])].flatMap(({ topic, failure }) =>
    failure === undefined || ERRORS[failure.code].retry ? [] : [`${topic} is not served: ${failure.message}`],
  );
}
