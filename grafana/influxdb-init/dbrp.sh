#!/bin/sh
# Lets InfluxDB 2 answer InfluxQL for a database called like the bucket. Run once, by the image's own set-up.
set -eu
influx v1 dbrp create --db farm --rp autogen --default --bucket-id "$DOCKER_INFLUXDB_INIT_BUCKET_ID" \
    --org "$DOCKER_INFLUXDB_INIT_ORG" --token "$DOCKER_INFLUXDB_INIT_ADMIN_TOKEN"
