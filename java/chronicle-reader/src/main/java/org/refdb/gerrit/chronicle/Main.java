package org.refdb.gerrit.chronicle;

import com.googlesource.gerrit.modules.cache.chroniclemap.KeyWrapper;
import com.googlesource.gerrit.modules.cache.chroniclemap.TimedValue;
import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import net.openhft.chronicle.hash.ChecksumEntry;
import net.openhft.chronicle.map.ChronicleMap;

/**
 * {@code Main FILE}: writes the entries of a file of cache-chroniclemap to the standard output, as bytes. Damaged
 * entries are left out, and counted on standard error. An entry is the length of its key, the key, the length of its
 * value, the value, and the time of its creation in milliseconds since 1970. After the last entry come -1 in place of a
 * length, and the number of entries written. Lengths have four bytes, the times and the number eight, all big-endian.
 * The layout of FILE is read from the header of FILE.
 */
public final class Main {
  private static final int END = -1;

  private Main() {}

  /** Ends with status 0 if every entry that is not damaged was written. */
  public static void main(String[] arguments) throws IOException {
    System.setProperty("chronicle.analytics.disable", "true"); // usage reports to the vendor of ChronicleMap
    System.setProperty("chronicle.disk.monitor.disable", "true");
    Path file = Path.of(arguments[0]);
    if (!Files.isRegularFile(file) || Files.size(file) == 0) {
      throw new IOException(file + " is no file of ChronicleMap's"); // ChronicleMap would create it
    }
    try (FileOutputStream output = new FileOutputStream(FileDescriptor.out);
        DataOutputStream entries = new DataOutputStream(new BufferedOutputStream(output, 1 << 16))) {
      System.setOut(new PrintStream(new FileOutputStream(FileDescriptor.err), true)); // for the output of libraries
      write(file, entries);
    }
  }

  private static void write(Path file, DataOutputStream to) throws IOException {
    // The sizes are used for a new file only, but the builder requires them.
    try (ChronicleMap<KeyWrapper, TimedValue> map =
        ChronicleMap.of(KeyWrapper.class, TimedValue.class)
            .averageKeySize(1)
            .averageValueSize(1)
            .entries(1)
            .createPersistedTo(file.toFile())) {
      long[] count = new long[1];
      long[] damaged = new long[1];
      map.forEachEntry(
          entry -> {
            if (entry instanceof ChecksumEntry checked && !checked.checkSum()) {
              damaged[0]++;
              return; // skips the entry, because it is damaged: walks visit such entries too
            }
            TimedValue value = entry.value().get();
            try {
              array(to, entry.key().get().bytes());
              array(to, value.bytes());
              to.writeLong(value.createdMillis());
            } catch (IOException e) {
              throw new java.io.UncheckedIOException(e);
            }
            count[0]++;
          });
      to.writeInt(END);
      to.writeLong(count[0]);
      if (damaged[0] > 0) {
        System.err.println(file + ": " + damaged[0] + " damaged entries are left out");
      }
    }
  }

  private static void array(DataOutputStream to, byte[] bytes) throws IOException {
    to.writeInt(bytes.length);
    to.write(bytes);
  }
}
