// What a dashboard of farm may contain: Grafana's own types, with a panel's options and field options tied to its type,
// and with the queries of the InfluxDB data source, which @grafana/schema leaves open.
import type * as raw from './node_modules/@grafana/schema/dist/types/raw/dashboard/x/types.gen';
import type * as bargauge from './node_modules/@grafana/schema/dist/types/raw/composable/bargauge/panelcfg/x/types.gen';
import type * as stat from './node_modules/@grafana/schema/dist/types/raw/composable/stat/panelcfg/x/types.gen';
import type * as table from './node_modules/@grafana/schema/dist/types/raw/composable/table/panelcfg/x/types.gen';
import type * as timeline from './node_modules/@grafana/schema/dist/types/raw/composable/statetimeline/panelcfg/x/types.gen';
import type * as timeseries from './node_modules/@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/types.gen';

interface Target {
  refId: string;
  datasource: raw.DataSourceRef;
  query: string;
  rawQuery: true;
  resultFormat: 'table' | 'time_series';
  alias?: string;
}

interface FieldConfig<F> extends Omit<raw.FieldConfig, 'custom'> {
  custom?: F;
}

interface Fields<F> {
  defaults: FieldConfig<F>;
  overrides: raw.FieldConfigSource['overrides'];
}

interface Of<T extends string, O, F> extends Omit<raw.Panel, 'type' | 'options' | 'fieldConfig' | 'targets'> {
  type: T;
  options: O;
  fieldConfig: Fields<F>;
  targets: Target[];
}

type None = Record<string, never>;

type Panel =
  | Of<'table', table.Options, table.FieldConfig>
  | Of<'timeseries', timeseries.Options, timeseries.FieldConfig>
  | Of<'state-timeline', timeline.Options, timeline.FieldConfig>
  | Of<'stat', stat.Options, None>
  | Of<'bargauge', bargauge.Options, None>;

// grafana/grafana, public/app/plugins/datasource/influxdb, AnnotationEditor.tsx
interface Events {
  refId: string;
  datasource: raw.DataSourceRef;
  query: string;
  rawQuery: true;
  fromAnnotations: true;
  textEditor: true;
  textColumn: string;
  tagsColumn: string;
}

interface Annotation extends Omit<raw.AnnotationQuery, 'target'> {
  target: Events;
}

export interface Dashboard extends Omit<raw.Dashboard, 'panels' | 'annotations'> {
  panels: Panel[];
  annotations: { list: Annotation[] };
}
