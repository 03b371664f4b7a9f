//! The contents of a recorder.

use std::collections::BTreeMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};

/// Metrics by name and labels, in the notation of exporters: `name{label="value"}`.
#[derive(Debug)]
pub(crate) struct Recorded {
    values: BTreeMap<String, DebugValue>,
    /// Metrics without a description.
    pub(crate) undescribed: Vec<String>,
}

/// Returns what is recorded while `work` runs in this thread.
pub(crate) fn record(work: impl FnOnce()) -> Recorded {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, work);
    Recorded::by(&recorder)
}

impl Recorded {
    pub(crate) fn by(recorder: &DebuggingRecorder) -> Self {
        let mut recorded = Self { values: BTreeMap::new(), undescribed: Vec::new() };
        for (key, _, description, value) in recorder.snapshotter().snapshot().into_vec() {
            let (_, key) = key.into_parts();
            let labels: Vec<_> =
                key.labels().map(|label| format!("{}={:?}", label.key(), label.value())).collect();
            let series = match &labels[..] {
                [] => key.name().to_owned(),
                labels => format!("{}{{{}}}", key.name(), labels.join(",")),
            };
            if description.is_none() {
                recorded.undescribed.push(series.clone());
            }
            recorded.values.insert(series, value);
        }
        recorded
    }

    /// Returns the names and labels of all metrics.
    pub(crate) fn series(&self) -> Vec<&str> {
        self.values.keys().map(String::as_str).collect()
    }

    #[track_caller]
    pub(crate) fn counter(&self, series: &str) -> u64 {
        match self.values.get(series) {
            Some(DebugValue::Counter(value)) => *value,
            other => panic!("{series} is {other:?} in {:?}", self.series()),
        }
    }

    #[track_caller]
    pub(crate) fn gauge(&self, series: &str) -> f64 {
        match self.values.get(series) {
            Some(DebugValue::Gauge(value)) => value.into_inner(),
            other => panic!("{series} is {other:?} in {:?}", self.series()),
        }
    }

    #[track_caller]
    pub(crate) fn histogram(&self, series: &str) -> Vec<f64> {
        match self.values.get(series) {
            Some(DebugValue::Histogram(values)) => values.iter().map(|value| value.into_inner()).collect(),
            other => panic!("{series} is {other:?} in {:?}", self.series()),
        }
    }
}
