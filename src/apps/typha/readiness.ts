import { ERRORS } from '../../base/error-codes.ts';
import type { FollowService } from './follow-service.ts';

/** Returns why the server cannot serve now, a sentence each. A topic that the API refuses is only missing. */
export function typhaNotReady(service: FollowService | undefined): readonly string[] {
  if (service === undefined) return ['it has not begun to listen'];
  return [...service.topics].flatMap(({ topic, isLoaded, failure }) => {
    if (failure !== undefined) return ERRORS[failure.code].retry ? [`${topic}: ${failure.message}`] : [];
    return isLoaded ? [] : [`${topic} is being read`];
  });
}

/** Returns the topics that the API refuses: their followers are told so. */
export function typhaWarnings(service: FollowService | undefined): readonly string[] {
  return [...(service?.topics ?? [])].flatMap(({ topic, failure }) =>
    failure === undefined || ERRORS[failure.code].retry ? [] : [`${topic} is not served: ${failure.message}`],
  );
}
