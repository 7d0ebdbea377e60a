// One page: the panels of a dashboard, each with the answers of its queries, as Grafana's own components draw them.
// What they get is Grafana's own too: field options with overrides, transformations, units, thresholds, mappings.
import {
  DataFrame, FieldConfigOptionsRegistry, FieldType, ThemeContext, applyFieldOverrides, createDataFrame, createTheme,
  dateTime, displayNameOverrideProcessor, getDisplayValueAlignmentFactors, getFieldDisplayValues, identityOverrideProcessor,
  standardTransformers, standardTransformersRegistry, transformDataFrame,
} from '@grafana/data';
import { initPluginTranslations } from '@grafana/i18n';
import { BarGauge, BigValue, PanelChrome, Table, TimeSeries, VizRepeater } from '@grafana/ui';
import React, { useLayoutEffect } from 'react';
import { createRoot } from 'react-dom/client';
import { firstValueFrom } from 'rxjs';
import 'uplot/dist/uPlot.min.css';

const theme = createTheme({ colors: { mode: 'light' } });
const CELL = { width: 66, height: 36, gap: 8 };

standardTransformersRegistry.setInit(() =>
  [standardTransformers.sortByTransformer, standardTransformers.organizeFieldsTransformer].map((one: any) => ({ id: one.id, name: one.name, transformation: async () => one, editor: () => null }))
);

// The application registers these with their editors; here they are names with a way to apply an override.
const STANDARD = ['unit', 'decimals', 'displayName', 'min', 'max', 'mappings', 'thresholds', 'color', 'noValue', 'links', 'filterable'];
const CUSTOM = [
  'align', 'width', 'minWidth', 'cellOptions', 'filterable', 'inspect', 'drawStyle', 'lineInterpolation', 'lineWidth', 'pointSize', 'showPoints',
  'spanNulls', 'fillOpacity', 'axisPlacement', 'scaleDistribution',
];
const registry = new FieldConfigOptionsRegistry(() => [
  ...STANDARD.map((path) => item(path, false)),
  ...CUSTOM.map((path) => item(path, true)),
]);

function item(path: string, isCustom: boolean): any {
  return {
    id: isCustom ? `custom.${path}` : path, path, name: path, isCustom, editor: () => null, override: () => null, settings: {},
    shouldApply: () => true, process: path === 'displayName' ? displayNameOverrideProcessor : identityOverrideProcessor,
  };
}

// JSON knows no infinity: the first threshold is null in a file, and the server puts the infinity back on loading.
function infinite(config: any): any {
  const steps = config.thresholds?.steps.map((one: any) => ({ ...one, value: one.value ?? -Infinity }));
  return steps ? { ...config, thresholds: { ...config.thresholds, steps } } : config;
}

// An InfluxQL answer as the InfluxDB data source makes frames of it.
function frames(target: any): DataFrame[] {
  const column = (name: string, values: any[], config = {}) => ({
    name, values, config,
    type: name === 'Time' ? FieldType.time : typeof values.find((v) => v !== null) === 'number' ? FieldType.number : FieldType.string,
  });
  if (target.resultFormat === 'time_series') {
    return target.series.map((one: any) =>
      createDataFrame({
        refId: target.refId,
        fields: [
          column('Time', one.values.map((row: any[]) => row[0])),
          column('Value', one.values.map((row: any[]) => row[1]), { displayNameFromDS: one.name }),
        ],
      })
    );
  }
  const first = target.series[0];
  if (!first) return [];
  const tags = Object.keys(first.tags ?? {});
  const names = ['Time', ...tags, ...first.columns.slice(1)];
  const rows = target.series.flatMap((one: any) =>
    one.values.map((row: any[]) => [row[0], ...tags.map((tag) => one.tags[tag]), ...row.slice(1)])
  );
  return [createDataFrame({ refId: target.refId, fields: names.map((name, i) => column(name, rows.map((row: any[]) => row[i]))) })];
}

function Marks({ config, marks }: { config: any; marks: any[] }) {
  useLayoutEffect(() => {
    config.addHook('draw', (plot: any) => {
      const { ctx, bbox } = plot;
      ctx.save();
      for (const mark of marks) {
        const x = Math.round(plot.valToPos(mark.time, 'x', true));
        ctx.strokeStyle = ctx.fillStyle = theme.visualization.getColorByName(mark.color);
        ctx.setLineDash([6, 4]);
        ctx.lineWidth = 2;
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
        ctx.font = '13px sans-serif';
        ctx.textAlign = x > bbox.left + bbox.width / 2 ? 'right' : 'left';
        // Grafana shows the whole sentence when the pointer is on the mark
        ctx.fillText(mark.text.split(' since')[0], x + (ctx.textAlign === 'right' ? -6 : 6), bbox.top + 16);
      }
      ctx.restore();
    });
  }, [config]);
  return null;
}

function Body({ panel, data, range, marks, width, height }: any) {
  const config = panel.fieldConfig.defaults;
  if (!data.some((frame: DataFrame) => frame.length > 0)) return <div style={{ padding: 16 }}>{config.noValue}</div>;
  const single = { reduceOptions: panel.options.reduceOptions, fieldConfig: panel.fieldConfig, data, theme, timeZone: 'utc' };
  switch (panel.type) {
    case 'table':
      return <Table data={data[0]} width={width} height={height} initialSortBy={panel.options.sortBy} />;
    case 'timeseries':
      return (
        <TimeSeries frames={data} timeRange={range} timeZone="utc" width={width} height={height} legend={panel.options.legend}>
          {(builder: any) => <Marks config={builder} marks={marks} />}
        </TimeSeries>
      );
    case 'stat': {
      const [value] = getFieldDisplayValues({ ...single, replaceVariables: (text: string) => text } as any);
      return <BigValue value={value.display} width={width} height={height} theme={theme} {...panel.options} />;
    }
    case 'bargauge':
      return (
        <VizRepeater
          source={data} width={width} height={height} orientation="horizontal" itemSpacing={2} renderCounter={0}
          minVizHeight={panel.options.minVizHeight} maxVizHeight={panel.options.maxVizHeight}
          getValues={() => getFieldDisplayValues({ ...single, replaceVariables: (text: string) => text } as any)}
          getAlignmentFactors={getDisplayValueAlignmentFactors}
          renderValue={({ value, width, height, alignmentFactors }: any) => (
            <BarGauge
              value={value.display} field={value.field} width={width} height={height} theme={theme} display={value.view?.getFieldDisplayProcessor(value.colIndex)}
              orientation="horizontal" displayMode={panel.options.displayMode} namePlacement="left" text={{ titleSize: 12, valueSize: 12 }}
              alignmentFactors={alignmentFactors} itemSpacing={2} lcdCellWidth={10} showUnfilled valueDisplayMode={panel.options.valueMode}
            />
          )}
        />
      );
    default:
      return <div style={{ padding: 16 }}>A {panel.type} is part of the Grafana server and is not drawn here; its query had {data.length} series.</div>;
  }
}

async function main() {
  await initPluginTranslations('farm', []);
  const { dashboard, answers, marks, since, until, title } = (window as any).farm;
  const range = { from: dateTime(since), to: dateTime(until), raw: { from: dateTime(since), to: dateTime(until) } };
  const drawn = [];
  for (const panel of dashboard.panels) {
    panel.fieldConfig.defaults = infinite(panel.fieldConfig.defaults);
    let data = answers[panel.id].flatMap(frames);
    data = await firstValueFrom(transformDataFrame(panel.transformations, data));
    data = applyFieldOverrides({
      data, fieldConfig: panel.fieldConfig, fieldConfigRegistry: registry, theme, timeZone: 'utc', replaceVariables: (text: string) => text,
    });
    const { x, y, w, h } = panel.gridPos;
    const width = w * CELL.width - CELL.gap;
    const height = h * CELL.height - CELL.gap;
    drawn.push(
      <div key={panel.id} style={{ position: 'absolute', left: x * CELL.width, top: 56 + y * CELL.height, width, height }}>
        <PanelChrome title={panel.title} width={width} height={height}>
          {(innerWidth: number, innerHeight: number) => (
            <Body panel={panel} data={data} range={range} marks={marks} width={innerWidth} height={innerHeight} />
          )}
        </PanelChrome>
      </div>
    );
  }
  createRoot(document.getElementById('root')!).render(
    <ThemeContext.Provider value={theme}>
      <h3 style={{ font: '500 18px sans-serif', margin: 8 }}>{dashboard.title}<small style={{ color: '#666', marginLeft: 16 }}>{title}</small></h3>
      {drawn}
    </ThemeContext.Provider>
  );
}

main();
