package org.refdb.gerrit.plugin.cache;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.restapi.ResourceNotFoundException;
import com.google.gerrit.extensions.restapi.Response;
import com.google.gerrit.extensions.restapi.RestReadView;
import com.google.gerrit.server.config.CacheResource;
import com.google.gerrit.server.config.ConfigResource;
import com.google.gerrit.sshd.CommandMetaData;
import com.google.inject.Inject;
import java.util.List;
import java.util.Optional;
import org.refdb.gerrit.cache.CacheAdmin;
import org.refdb.gerrit.cache.CacheStat;
import org.refdb.gerrit.cache.CacheTools;
import org.refdb.gerrit.cache.shared.SharedStatus;

/** Figures of one persistent cache, or of all. */
final class ShowCacheStat {
  private ShowCacheStat() {}

  /** {@code refdb cache stat [CACHE]}. */
  @RequiresAnyCapability(
      value = {GlobalCapability.VIEW_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  @CommandMetaData(name = "stat", description = "Figures of one persistent cache, or of all")
  static final class Command extends CacheCommand.OneOrAll {
    @Override
    void execute() throws UnloggedFailure {
      if (isAll()) {
        admin().sharedStatus().ifPresent(status -> stdout.println(status.text()));
      }
      for (CacheTools cache : caches()) {
        stdout.println(cache.stat().text());
      }
    }
  }

  /** {@code GET /config/server/refdb~caches}. */
  @RequiresAnyCapability(
      value = {GlobalCapability.VIEW_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  static final class AllEndpoint implements RestReadView<ConfigResource> {
    @Inject(optional = true)
    private CacheAdmin admin;

    @Override
    public Response<List<CacheStat>> apply(ConfigResource resource) throws ResourceNotFoundException {
      if (admin == null) {
        throw new ResourceNotFoundException("the persistent caches are not refdb's");
      }
      return Response.ok(admin.all().stream().map(CacheTools::stat).toList());
    }
  }

  /** {@code GET /config/server/refdb~shared-cache}: the state of the cache that servers share. */
  @RequiresAnyCapability(
      value = {GlobalCapability.VIEW_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  static final class SharedEndpoint implements RestReadView<ConfigResource> {
    @Inject(optional = true)
    private CacheAdmin admin;

    @Override
    public Response<SharedStatus> apply(ConfigResource resource) throws ResourceNotFoundException {
      return Response.ok(
          Optional.ofNullable(admin)
              .flatMap(CacheAdmin::sharedStatus)
              .orElseThrow(() -> new ResourceNotFoundException("there is no shared cache")));
    }
  }

  /** {@code GET /config/server/caches/NAME/refdb~stat}. */
  @RequiresAnyCapability(
      value = {GlobalCapability.VIEW_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  static final class Endpoint implements RestReadView<CacheResource> {
    @Override
    public Response<CacheStat> apply(CacheResource cache) throws ResourceNotFoundException {
      return Response.ok(CacheResources.tools(cache).stat());
    }
  }
}
