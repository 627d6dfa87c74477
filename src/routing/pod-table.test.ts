import { describe, expect, it } from 'vitest';
import { filterText } from '../../test/support/filter-text.ts';
import { renderPodTable } from './pod-table.ts';

describe('the pod filter table', () => {
  it('matches the golden file', async () => {
    const table = filterText(renderPodTable('strict'));
    await expect(table).toMatchFileSnapshot('../../test/golden/pod-table.txt');
  });

  it('drops only loopback addresses when the source check is off', () => {
    const [strict, off] = (['strict', 'off'] as const).map((check) => renderPodTable(check).chains.get('prerouting')!);
    expect(off?.rules).toEqual(strict?.rules.slice(0, 2));
    expect(off?.rules.map(({ id }) => id)).toEqual(['loopback-source', 'loopback-destination']);
  });
});
