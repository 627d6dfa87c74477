import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { LONG_FILES } from '../../test/runs.ts';

/**
 * Starts the files that take longest before the others, whatever project they are in. Projects one after the other, as vitest has them,
 * end with a long file on one core and nothing on the other.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const groups = Map.groupBy(await super.sort(files), ({ project }) => project.config.sequence.groupOrder);
    return [...groups.entries()]
      .toSorted(([a], [b]) => a - b)
      .flatMap(([, inGroup]) => inGroup.toSorted((a, b) => rankOf(a.moduleId) - rankOf(b.moduleId)));
  }
}

/** Returns the place among the long files; that of all others is behind them. */
function rankOf(path: string): number {
  const rank = LONG_FILES.findIndex((name) => path.endsWith(`/test/${name}.test.ts`));
  return rank === -1 ? LONG_FILES.length : rank;
}
