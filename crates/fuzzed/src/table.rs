//! The reader of device tables.

use sled::DeviceTable;

/// A text is refused, or is a table that its own text form gives back.
pub fn table(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(table) = DeviceTable::from_toml(text) else { return };
    let again = DeviceTable::from_toml(&table.to_toml()).expect("what is written can be read");
    assert_eq!(again, table);
    for device in table.devices() {
        if let Some(estimate) = table.estimate(device, 1 << 20) {
            assert!(estimate.latency.p50 > 0.0 && estimate.latency.p50 <= estimate.latency.p90);
            assert!(
                estimate.bandwidth.p90 > 0.0 && estimate.bandwidth.p90 <= estimate.bandwidth.p50
            );
        }
    }
}
