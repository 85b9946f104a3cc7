package org.refdb.gerrit.cache.h2;

import java.io.Closeable;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import java.util.UUID;

/**
 * A file with the keys that were changed since an import began. With it, an import that was interrupted by a restart
 * can continue without bringing back an entry that was invalidated since. The file contains salted digests instead of
 * keys.
 *
 * <p>The file is valid after a clean stop, and also after a kill as long as the machine has not restarted, because the
 * operating system then has everything that was written. What is added is synced only at a clean stop.
 */
final class ChangedKeys implements Closeable {
  private static final byte[] MAGIC = "refdbchg".getBytes(StandardCharsets.US_ASCII);
  private static final int PART_BYTES = 16;
  private static final int HEADER_BYTES = 8 + 2 * PART_BYTES;
  private static final byte[] CLOSED = "stopped cleanly.".getBytes(StandardCharsets.US_ASCII);
  private static final Path BOOT_ID = Path.of("/proc/sys/kernel/random/boot_id");

  private final RandomAccessFile file; // no FileChannel, because the interruption of a thread would close it
  private final byte[] salt;
  private final MessageDigest digest;
  private final Set<Digest> digests = new HashSet<>();

  private record Digest(long high, long low) {
    static Digest of(ByteBuffer bytes) {
      return new Digest(bytes.getLong(), bytes.getLong());
    }
  }

  private ChangedKeys(RandomAccessFile file, byte[] salt) {
    this.file = file;
    this.salt = salt;
    try {
      digest = MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }

  /** Creates a file without keys, which replaces one that exists. */
  static ChangedKeys create(Path path) throws IOException {
    Files.deleteIfExists(path);
    Files.createFile(path, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
    byte[] salt = new byte[PART_BYTES];
    new SecureRandom().nextBytes(salt);
    ChangedKeys keys = new ChangedKeys(open(path), salt);
    keys.file.write(ByteBuffer.allocate(HEADER_BYTES).put(MAGIC).put(bootId()).put(salt).array());
    return keys;
  }

  /**
   * Opens the file that an earlier process left.
   *
   * @throws IOException if there is none, if it is not valid, or if it may lack keys that were changed before the
   *     machine stopped
   */
  static ChangedKeys resume(Path path) throws IOException {
    ByteBuffer content = ByteBuffer.wrap(Files.readAllBytes(path));
    byte[] magic = new byte[MAGIC.length];
    byte[] boot = new byte[PART_BYTES];
    byte[] salt = new byte[PART_BYTES];
    if (content.remaining() < HEADER_BYTES) {
      throw new IOException(path + " is cut short");
    }
    content.get(magic).get(boot).get(salt);
    if (!Arrays.equals(magic, MAGIC)) {
      throw new IOException(path + " is no list of changed keys");
    }
    int whole = content.remaining() / PART_BYTES * PART_BYTES; // a kill may cut the last digest, before its key changed
    int end = HEADER_BYTES + whole;
    boolean closed =
        whole >= PART_BYTES && Arrays.equals(content.array(), end - PART_BYTES, end, CLOSED, 0, PART_BYTES);
    if (!closed && !Arrays.equals(boot, bootId())) {
      throw new IOException(path + " may lack what was changed before the machine stopped");
    }
    int size = closed ? end - PART_BYTES : end;
    ChangedKeys keys = new ChangedKeys(open(path), salt);
    while (content.position() < size) {
      keys.digests.add(Digest.of(content));
    }
    keys.file.seek(MAGIC.length);
    keys.file.write(bootId());
    keys.file.setLength(size);
    keys.file.getFD().sync();
    keys.file.seek(size);
    return keys;
  }

  private static RandomAccessFile open(Path path) throws IOException {
    return new RandomAccessFile(path.toFile(), "rw");
  }

  /** Returns an id of the current boot of the machine. If it cannot be determined, the id differs from every other. */
  private static byte[] bootId() {
    UUID id;
    try {
      id = UUID.fromString(Files.readString(BOOT_ID).strip());
    } catch (IOException | IllegalArgumentException e) {
      id = UUID.randomUUID();
    }
    return ByteBuffer.allocate(PART_BYTES).putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits()).array();
  }

  boolean contains(byte[] key) {
    return digests.contains(Digest.of(digest(key)));
  }

  /** Adds a key. When this returns, a kill of the process cannot undo it. */
  void add(byte[] key) throws IOException {
    ByteBuffer bytes = digest(key);
    if (digests.add(Digest.of(bytes))) {
      file.write(bytes.array(), 0, PART_BYTES);
    }
  }

  private ByteBuffer digest(byte[] key) {
    digest.update(salt);
    return ByteBuffer.wrap(digest.digest(key), 0, PART_BYTES);
  }

  /** Empties and closes the file, so that {@link #resume} refuses it. */
  void discard() throws IOException {
    try (file) {
      file.setLength(0);
    }
  }

  /** Syncs and closes the file, so that it is valid even if the machine restarts. */
  @Override
  public void close() throws IOException {
    try (file) {
      file.getFD().sync();
      file.write(CLOSED);
      file.getFD().sync();
    }
  }
}
