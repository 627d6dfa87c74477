import { PANEL_SECTIONS, type Panel } from './panels.ts';

const COLUMNS = 24;
const HEIGHT = 8;
const DATASOURCE = { type: 'prometheus', uid: '${datasource}' };
/** A release of Grafana's dashboard model that Grafana 10 to 12 load; newer ones migrate it. */
const SCHEMA_VERSION = 39;

/** The file of the Grafana dashboard. */
export function dashboardFile(): string {
  return `${JSON.stringify(dashboard(), undefined, 2)}\n`;
}

function dashboard(): object {
  return {
    uid: 'netplug',
    title: 'netplug',
    description: 'Agents, addresses, network, policies and controllers of netplug.',
    tags: ['netplug', 'cni'],
    timezone: 'browser',
    schemaVersion: SCHEMA_VERSION,
    version: 1,
    editable: true,
    graphTooltip: 1,
    refresh: '1m',
    time: { from: 'now-6h', to: 'now' },
    timepicker: {},
    links: [],
    annotations: { list: [] },
    templating: {
      list: [
        { type: 'datasource', name: 'datasource', label: 'Prometheus', query: 'prometheus', hide: 0 },
        variable('cluster', 'label_values(netplug_datastore_up, cluster)'),
        variable('node', 'label_values(netplug_datastore_up{cluster=~"$cluster"}, node)'),
      ],
    },
    panels: layOut(),
  };
}

/** `All` is any value, also none: a Prometheus of one cluster has no label "cluster". */
function variable(name: string, query: string): object {
  return {
    type: 'query',
    name,
    label: name,
    datasource: DATASOURCE,
    query: { query, refId: `variable-${name}` },
    refresh: 2,
    sort: 1,
    multi: true,
    includeAll: true,
    allValue: '.*',
    current: { selected: true, text: ['All'], value: ['$__all'] },
    hide: 0,
  };
}

/** Places each section as a row of panels, from left to right. */
function layOut(): readonly object[] {
  const placed: object[] = [];
  let y = 0;
  for (const { title, panels } of PANEL_SECTIONS) {
    placed.push({
      id: placed.length + 1,
      type: 'row',
      title,
      collapsed: false,
      panels: [],
      gridPos: { h: 1, w: COLUMNS, x: 0, y },
    });
    y += 1;
    let x = 0;
    for (const panel of panels) {
      if (x + panel.width > COLUMNS) [x, y] = [0, y + HEIGHT];
      placed.push({ id: placed.length + 1, gridPos: { h: HEIGHT, w: panel.width, x, y }, ...rendered(panel) });
      x += panel.width;
    }
    y += HEIGHT;
  }
  return placed;
}

function rendered({ type, title, about, unit, max, queries, isBadAbove }: Panel): object {
  const thresholds =
    isBadAbove === undefined
      ? [{ color: 'green', value: null }]
      : [
          { color: 'green', value: null },
          { color: 'red', value: isBadAbove },
        ];
  return {
    type,
    title,
    description: about,
    datasource: DATASOURCE,
    fieldConfig: {
      defaults: {
        unit,
        min: 0,
        ...(max === undefined ? {} : { max }),
        thresholds: { mode: 'absolute', steps: thresholds },
        ...(type === 'timeseries' ? { custom: { fillOpacity: 10, lineWidth: 1, showPoints: 'never' } } : {}),
      },
      overrides: [],
    },
    options:
      type === 'timeseries'
        ? {
            legend: { displayMode: 'list', placement: 'bottom', showLegend: true, calcs: [] },
            tooltip: { mode: 'multi', sort: 'desc' },
          }
        : {
            colorMode: 'value',
            graphMode: 'area',
            justifyMode: 'auto',
            orientation: 'auto',
            textMode: 'auto',
            reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
          },
    targets: queries.map(({ expr, legend }, index) => ({
      refId: String.fromCodePoint(65 + index),
      datasource: DATASOURCE,
      expr,
      legendFormat: legend,
      range: true,
    })),
  };
}
