// node validate.mjs FILE...  prints {FILE: [complaint, ...]}; a file without complaints has an empty list.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Ajv from 'ajv';
import { createGenerator } from 'ts-json-schema-generator';

const here = dirname(fileURLToPath(import.meta.url));
const schema = createGenerator({
  path: join(here, 'types.ts'),
  tsconfig: join(here, 'tsconfig.json'),
  type: 'Dashboard',
  expose: 'none', // many of Grafana's types bear the same name, such as Options
  skipTypeCheck: true,
}).createSchema('Dashboard');
// A dashboard's panels are validated one by one against their own type, so that a complaint names the one place.
const dashboard = schema.definitions.Dashboard;
const kinds = Object.fromEntries(
  dashboard.properties.panels.items.anyOf.map((one) => [one.properties.type.const, one])
);
const ajv = new Ajv({ strict: false, allErrors: true });
const check = Object.fromEntries(Object.entries(kinds).map(([kind, one]) => [kind, ajv.compile(one)]));
const checkDashboard = ajv.compile({
  ...dashboard,
  properties: { ...dashboard.properties, panels: { type: 'array' } },
});

// An override's properties are free in Grafana's types; as part of the defaults they are not.
function withOverrides(panel) {
  const defaults = structuredClone(panel.fieldConfig?.defaults ?? {});
  for (const { id, value } of (panel.fieldConfig?.overrides ?? []).flatMap((one) => one.properties)) {
    if (id.startsWith('custom.')) {
      defaults.custom = { ...defaults.custom, [id.slice('custom.'.length)]: value };
    } else {
      defaults[id] = value;
    }
  }
  return { ...panel, fieldConfig: { ...panel.fieldConfig, defaults } };
}

function complaints(found) {
  const errors = [];
  const note = (where, list) => {
    for (const one of list ?? []) {
      errors.push(`${where}${one.instancePath}: ${one.message} ${JSON.stringify(one.params)}`);
    }
  };
  if (!checkDashboard(found)) note('', checkDashboard.errors);
  for (const panel of found.panels) {
    const one = check[panel.type];
    if (!one) errors.push(`panel ${panel.title}: unknown type ${panel.type}`);
    else if (!one(panel)) note(`panel ${panel.title}`, one.errors);
    else if (!one(withOverrides(panel))) note(`panel ${panel.title}, overrides`, one.errors);
  }
  return errors;
}

const results = {};
for (const file of process.argv.slice(2)) {
  results[file] = complaints(JSON.parse(readFileSync(file, 'utf8')));
}
console.log(JSON.stringify(results, null, 1));
