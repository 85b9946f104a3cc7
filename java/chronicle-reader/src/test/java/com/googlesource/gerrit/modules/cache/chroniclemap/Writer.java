package com.googlesource.gerrit.modules.cache.chroniclemap;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import net.openhft.chronicle.map.ChronicleMap;

/** {@code Writer FILE ENTRIES}: makes a file of a cache of strings, of which one value in ten is long. */
public final class Writer {
  private Writer() {}

  /** The value of a number. */
  public static String value(int number) {
    return ("value " + number + " ").repeat(number % 10 == 0 ? 500 : 1);
  }

  /** Writes the file. */
  public static void main(String[] arguments) throws Exception {
    System.setProperty("chronicle.analytics.disable", "true");
    System.setProperty("chronicle.disk.monitor.disable", "true");
    int entries = Integer.parseInt(arguments[1]);
    try (ChronicleMap<KeyWrapper, TimedValue> map =
        ChronicleMap.of(KeyWrapper.class, TimedValue.class)
            .name("strings")
            .averageKeySize(20)
            .keyMarshaller(new KeyWrapperMarshaller("strings"))
            .averageValueSize(600)
            .valueMarshaller(new TimedValueMarshaller("strings"))
            .entries(2L * entries)
            .maxBloatFactor(3)
            .createOrRecoverPersistedTo(Path.of(arguments[0]).toFile())) {
      for (int i = 0; i < entries; i++) {
        map.put(
            new KeyWrapper(("kéy " + i).getBytes(StandardCharsets.UTF_8)),
            new TimedValue(value(i).getBytes(StandardCharsets.UTF_8), 1_700_000_000_000L + i));
      }
    }
  }
}
