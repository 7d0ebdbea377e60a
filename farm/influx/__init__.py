"""Results on their way to InfluxDB: the only place that speaks line protocol."""
