package org.refdb.gerrit.cache;

import com.google.gerrit.server.cache.CacheModule;
import com.google.gerrit.server.cache.serialize.ObjectIdCacheSerializer;
import java.time.Duration;
import org.eclipse.jgit.lib.ObjectId;

/** The caches of a plugin in one version: one of strings with an age, and one whose keys are object IDs. */
public class VersionedCaches extends CacheModule {
  private final int version;

  public VersionedCaches(int version) {
    this.version = version;
  }

  @Override
  protected void configure() {
    persist("strings", String.class, String.class)
        .valueSerializer(TextSerializer.INSTANCE)
        .expireAfterWrite(Duration.ofHours(12))
        .version(version);
    persist("objects", ObjectId.class, String.class)
        .keySerializer(ObjectIdCacheSerializer.INSTANCE)
        .valueSerializer(TextSerializer.INSTANCE)
        .version(version);
  }
}
